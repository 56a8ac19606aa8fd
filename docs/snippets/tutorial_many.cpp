// The tutorial's listener and transaction in a busy library: 200 loans, and four threads that call the listener.
#pragma GCC diagnostic ignored "-Wreturn-type"  // only a real main needs no return
#define main tutorial_main
#include "tutorial.cpp"
#undef main

#include "support.hpp"

int main() try {
  auto const path = std::filesystem::temp_directory_path() / "outbox-tutorial-many.db";
  for (auto const* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + suffix);

  auto const store = outbox::sqlite::open(path);
  auto box = outbox::single_node({.store = store,
                                  .listeners = receipts(true),
                                  .workers = 4,
                                  .interceptors = {std::make_shared<docs::in_pairs>()}});
  box.start();
  outbox::sqlite::connection db{path};
  db.execute("CREATE TABLE loans (title TEXT, reader TEXT)");
  for (int i = 0; i < 200; ++i) lend(box.writer(), db, {"Hamlet's " + std::to_string(i), "Robert'); --"}, true);
  wait_until_settled(*store);
  docs::check(box.stop(), "the node stops in time");
  std::printf("delivered %d\n", static_cast<int>(box.counters().delivered));
} catch (std::exception const& e) {
  std::printf("does not hold: %s\n", e.what());
  return 1;
}
