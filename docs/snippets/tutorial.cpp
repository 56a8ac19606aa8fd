// The program of docs/tutorial.md: a library lends books and prints a receipt for every loan.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <string>
#include <thread>

using namespace std::chrono_literals;

struct book_lent {
  static constexpr std::string_view event_type = "book.lent";
  using outbox_codec = outbox::json;
  std::string title;
  std::string reader;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(book_lent, title, reader)

outbox::listeners receipts(bool mephisto_has_a_card) {
  outbox::listeners listeners;
  listeners.on<book_lent>(
      [mephisto_has_a_card](book_lent const& e, outbox::delivery const& d) -> outbox::result {
        if (e.reader == "Mephisto" && !mephisto_has_a_card) return outbox::dead{"Mephisto has no card"};
        if (e.title == "Ulysses" && d.attempt == 1) {
          std::printf("the printer jams\n");
          return outbox::failed{"the printer jams"};
        }
        std::printf("receipt: %s for %s, attempt %d\n", e.title.c_str(), e.reader.c_str(), d.attempt);
        return outbox::done;
      },
      {.name = "printer", .timeout = 10s});
  return listeners;
}

void lend(outbox::writer const& writer, outbox::sqlite::connection& db, book_lent const& loan, bool commit) {
  outbox::sqlite::transaction tx{db};
  tx.execute("INSERT INTO loans VALUES (?, ?)", loan.title, loan.reader);
  writer.write(tx, loan, {.aggregate = {"book", loan.title}});
  if (commit) tx.commit();
}

void wait_until_settled(outbox::store& store) {
  while (store.inspect().counts().pending() > 0) std::this_thread::sleep_for(1ms);
}

int main(int argc, char**) {
  bool const again = argc > 1;
  if (!again) {
    for (auto const* file : {"library.db", "library.db-wal", "library.db-shm"}) std::filesystem::remove(file);
  }

  auto const store = outbox::sqlite::open("library.db");
  auto box = outbox::single_node({.store = store, .listeners = receipts(again)});
  box.start();

  if (again) {
    box.dead_events().replay_all();
    wait_until_settled(*store);
  } else {
    outbox::sqlite::connection db{"library.db"};
    db.execute("CREATE TABLE loans (title TEXT, reader TEXT)");

    lend(box.writer(), db, {"Emma", "Ada"}, true);
    wait_until_settled(*store);
    lend(box.writer(), db, {"Dracula", "Bob"}, false);  // rolled back: no event, no listener call
    lend(box.writer(), db, {"Ulysses", "Cleo"}, true);  // the printer jams; the event is tried again
    wait_until_settled(*store);
    lend(box.writer(), db, {"Faust", "Mephisto"}, true);  // dead: another try would not help
    wait_until_settled(*store);
  }

  box.stop();
  auto const c = box.counters();
  std::printf("delivered %d, failed %d, dead %d\n", static_cast<int>(c.delivered), static_cast<int>(c.failed),
              static_cast<int>(c.dead));
}
