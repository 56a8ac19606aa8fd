// Two databases in one process: each has its own node; there is no global state.
//
//   example_two_databases [orders]
#include <cstdio>
#include <cstdlib>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <thread>

#include "example_files.hpp"

namespace {

struct shop {
  explicit shop(std::string const& name)
      : path{fresh_database(name)},
        store{outbox::sqlite::open(path)},
        box{outbox::single_node({.store = store, .listeners = listeners_of(name), .name = name})},
        db{path} {
    box.start();
  }

  static outbox::listeners listeners_of(std::string const& name) {
    outbox::listeners l;
    l.on("order.placed",
         [name](outbox::delivery const& d) { std::printf("%s: %s\n", name.c_str(), d.event.payload().c_str()); });
    return l;
  }

  void place(std::string const& order) {
    outbox::sqlite::transaction tx{db};
    box.writer().write(tx, "order.placed", order);
    tx.commit();
  }
  void wait_until_delivered() const {
    while (store->inspect().counts().pending() > 0) std::this_thread::yield();
  }

  std::string path;
  std::shared_ptr<outbox::store> store;
  outbox::node box;
  outbox::sqlite::connection db;
};

}  // namespace

int main(int argc, char** argv) {
  shop books{"books"};
  shop music{"music"};
  books.place("1");
  books.wait_until_delivered();
  music.place("2");
  music.wait_until_delivered();
  for (int i = 0; i < (argc > 1 ? std::atoi(argv[1]) : 1); ++i) books.place(std::to_string(3 + i));
  books.wait_until_delivered();

  // The writer of one node refuses a transaction on the other database before anything is written.
  try {
    outbox::sqlite::transaction tx{music.db};
    books.box.writer().write(tx, "order.placed", "4");
  } catch (outbox::error const& e) {
    std::printf("refused: %s\n", e.code() == outbox::errc::wrong_transaction ? "wrong transaction" : e.what());
  }
}
