// Writer-only with an external change data capture: the service writes events in its transactions and delivers nothing;
// another program reads the table and publishes. Here that program is a few lines of SQL that follow `seq`; in
// production it is a tool that reads the database's log.
//
//   example_writer_only_cdc
//
// Following `seq` by SELECT is right on SQLite, where rows become visible in the order of their numbers. On PostgreSQL
// and MariaDB a transaction with a lower number may commit later and would be missed: read the log there.
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <outbox/testing.hpp>
#include <set>
#include <vector>

#include "example_files.hpp"

using namespace std::chrono_literals;

namespace {

// The external reader: it knows the table and its own position, and nothing of the library's nodes.
class change_reader {
 public:
  explicit change_reader(std::string const& database) : db_{database} {
    db_.execute("CREATE TABLE IF NOT EXISTS reader (position INTEGER NOT NULL)");
    if (db_.query<int>("SELECT position FROM reader").empty()) db_.execute("INSERT INTO reader VALUES (0)");
  }

  // Publishes what is new. A reader that ends before it notes its position publishes the same events again.
  std::vector<std::string> publish(bool ends_before_the_note = false) {
    std::vector<std::string> ids;
    auto position = db_.query_one<std::int64_t>("SELECT position FROM reader");
    for (auto const& [seq, id, type, payload] : db_.query<std::int64_t, std::string, std::string, std::string>(
             "SELECT seq, event_id, event_type, payload FROM outbox_event WHERE seq > ? ORDER BY seq LIMIT 100",
             position)) {
      std::printf("published %s %s\n", type.c_str(), payload.c_str());
      ids.push_back(id);
      position = seq;
    }
    if (!ends_before_the_note) db_.execute("UPDATE reader SET position = ?", position);
    return ids;
  }

 private:
  outbox::sqlite::connection db_;
};

struct service {
  explicit service(std::string const& path, std::shared_ptr<outbox::clock const> const& clock)
      : store{outbox::sqlite::open(path, {.clock = clock})},
        box{outbox::writer_only(
            {.store = store, .purge = outbox::age_purge_options{.keep = 48h}, .clock = clock})},  // longer than outages
        db{path} {
    db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)");
  }

  void place(int id, bool commit = true) {
    outbox::sqlite::transaction tx{db};
    tx.execute("INSERT INTO orders VALUES (?)", id);
    box.writer().write(tx, "order.placed", std::to_string(id), {.aggregate = {"order", std::to_string(id)}});
    if (commit) tx.commit();
  }

  std::shared_ptr<outbox::store> store;
  outbox::node box;  // it needs no start(): it has no thread
  outbox::sqlite::connection db;
};

}  // namespace

int main() {
  auto const path = fresh_database("cdc");
  auto const clock = std::make_shared<outbox::testing::manual_clock>();  // so that two days pass at once
  service shop{path, clock};
  shop.place(1);
  shop.place(2);
  shop.place(3, false);  // rolled back: the reader never sees it

  // At least once: the reader ends before it notes its position, and its successor publishes again. A receiver
  // recognises what it knows by the event's id.
  std::set<std::string> received;
  for (bool const ends : {true, false}) {
    for (auto const& id : change_reader{path}.publish(ends)) received.insert(id);
  }
  must(received.size() == 2, "two orders were committed");
  shop.place(4);
  must(change_reader{path}.publish().size() == 1, "the reader goes on where it was");

  // Nothing is dispatched by us: no row has an owner or an attempt, and none is ever DONE.
  auto const counts = shop.store->inspect().counts();
  auto const touched =
      shop.db.query_one<int>("SELECT count(*) FROM outbox_event WHERE locked_by IS NOT NULL OR attempts > 0");
  must(counts.created == 3 && counts.done == 0 && touched == 0, "every row is as it was written");
  must(shop.box.counters().delivered == 0 && shop.box.health().healthy, "a healthy node that delivers nothing");
  std::printf("rows: %d new, %d done\n", static_cast<int>(counts.created), static_cast<int>(counts.done));

  // So rows go by age, read or not. A started node does this by itself, every hour by default.
  clock->advance(47h);
  must(shop.box.purge_once() == 0, "they are younger than 48 h");
  clock->advance(2h);
  std::printf("purged by age: %d\n", static_cast<int>(shop.box.purge_once()));
  must(shop.store->inspect().counts().created == 0, "the table is empty");

  // Numbers are never used again, so the reader's position stays right.
  shop.place(5);
  must(change_reader{path}.publish().size() == 1, "the reader sees what comes after a purge");
}
