// What a claim costs beside rows that it does not want.
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>

#include "left_out.hpp"
#include "sqlite_by_hand.hpp"
#include "suites.hpp"
#include "support/temporary_directory.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

// A file with 1000 due rows, and more of another kind: the columns that make it so.
struct table {
  table(std::string const& path, int others, std::string const& columns, std::string const& values) : file{path} {
    create_tables(path);
    {
      database const db{path};
      db.run("PRAGMA synchronous = OFF");
      db.run("BEGIN");
      if (columns == slow) {
        fill(db, "other", others, "", "", slow_type);
      } else {
        fill(db, "other", others, columns, values);
      }
      fill(db, "due", 1000, "", "");
      db.run("COMMIT");
      db.run("PRAGMA wal_checkpoint(TRUNCATE)");
      db.run("ANALYZE");
    }
    store = outbox::sqlite::open(path);
  }

  static constexpr char const* slow = "event_type";  ///< Instead of columns: the others are of `slow_type`.

  static void fill(database const& db, std::string const& name, int count, std::string const& columns,
                   std::string const& values, std::string const& type = "order.placed") {
    if (count == 0) return;
    db.run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " + std::to_string(count) +
           ") INSERT INTO outbox_event (event_id, event_type, aggregate_type, payload, available_at, created_at, "
           "inserted_at" +
           (columns.empty() ? "" : ", " + columns) + ") SELECT '" + name + "-' || i, '" + type + "', 'order', '" +
           payload + "', '" + (type == slow_type ? "2019" : "2020") +
           "-01-01 00:00:00.000000', '2020-01-01 00:00:00.000000', '2020-01-01 00:00:00.000000'" +
           (values.empty() ? "" : ", " + values) + " FROM n");
  }

  // One claim of 50 in microseconds; then the rows are given back, which is not measured.
  double claim() {
    auto const token = "bench/" + std::to_string(++claims);
    auto const time = seconds([&] {
      if (store->backend().claim({.token = token, .limit = 50, .lease = 30s}).rows.size() != 50) std::abort();
    });
    store->backend().release(std::span{&token, 1}, 30s);
    return time * 1e6;
  }

  std::string file;
  std::shared_ptr<outbox::store> store;
  int claims = 0;
};

double claims_of(table& t, int count) {
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) samples.push_back(t.claim());
  return median(samples);
}

}  // namespace

rows sqlite_claims(settings const& s) {
  outbox::temporary_directory const dir{s.directory};
  auto const amount = [&](int n) { return s.amount(n); };
  auto const count = std::max(5, s.amount(40));
  table plain{dir / "plain.db", 0, "", ""};
  struct kind {
    std::string name, columns, values, what;
    int others;
  };
  std::string const far = "'2999-01-01 00:00:00.000000'";
  kind const kinds[] = {
      {"done", "status, done_at", "1, '2020-01-01 00:00:00.000000'", "1,000,000 rows are DONE", amount(1'000'000)},
      {"delayed", "lease_until", "NULL", "100,000 rows are not due yet", amount(100'000)},
      {"leased", "locked_by, locked_at, lease_until", "'other/1', '2020-01-01 00:00:00.000000', " + far,
       "10,000 rows are leased", amount(10'000)},
      {"backlog", "", "", "100,000 rows are due", amount(100'000)},
  };
  rows all;
  for (auto const& k : kinds) {
    table full{dir / (k.name + ".db"), k.others, k.columns, k.values};
    if (k.name == "delayed") {
      database const db{full.file};
      db.run("UPDATE outbox_event SET available_at = " + far + " WHERE event_id LIKE 'other-%'");
      db.run("PRAGMA wal_checkpoint(TRUNCATE)");
    }
    auto const ours = [&]() -> std::vector<double> { return {claims_of(full, count)}; };
    auto const by_hand = [&]() -> std::vector<double> { return {claims_of(plain, count)}; };
    auto r = interleave(s,
                        {{"sqlite.claim." + k.name, "us", at_most(1.5),
                          "a claim of 50 while " + k.what + "; beside it: the same claim with 1000 due rows only"}},
                        ours, by_hand);
    all.push_back(std::move(r.front()));
  }
  for (bool const crowded : {false, true}) {
    std::string const name = crowded ? "crowded" : "paused";
    table full{dir / (name + ".db"), amount(300'000), table::slow, ""};
    all.push_back(left_out_row(s, "sqlite.claim." + name, full, plain, count, crowded));
  }
  return all;
}

}  // namespace bench
