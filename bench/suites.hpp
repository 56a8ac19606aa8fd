// What there is to measure.
#pragma once

#include <functional>
#include <outbox/store.hpp>
#include <string>
#include <vector>

#include "delivery_ledger.hpp"
#include "rounds.hpp"

namespace bench {

using rows = std::vector<row>;

namespace re {
enum class fsync;
}

/// What is measured together, and the rows that come of it.
struct suite {
  std::vector<std::string> names;
  std::function<rows()> run;

  /// "sqlite", "postgres", "mysql", "redis" or "kafka"; the figures of memory are of a node on SQLite.
  [[nodiscard]] std::string database() const {
    for (auto const* const name : {"postgres", "mysql", "redis", "kafka"}) {
      if (names.front().starts_with(name)) return name;
    }
    return "sqlite";
  }
};

/// All of them, in the order of the report. Deliveries of each database are counted in its ledger.
[[nodiscard]] std::vector<suite> all_suites(settings const& s, delivery_ledger& on_sqlite, delivery_ledger& on_postgres,
                                            delivery_ledger& on_mysql, delivery_ledger& on_redis);

rows sqlite_write(settings const& s);
rows sqlite_write_all(settings const& s);
rows sqlite_end_to_end(settings const& s, delivery_ledger& ledger, bool full);
rows sqlite_wal(settings const& s, delivery_ledger& ledger);
rows sqlite_cold_drain(settings const& s, delivery_ledger& ledger, outbox::done_rows done);
rows sqlite_cold_drain_defaults(settings const& s, delivery_ledger& ledger);
rows sqlite_cold_drain_lean(settings const& s, delivery_ledger& ledger);
rows sqlite_hot_latency(settings const& s, delivery_ledger& ledger);
rows sqlite_cross_latency(settings const& s);
rows sqlite_idle(settings const& s);
rows sqlite_claims(settings const& s);
rows sqlite_retry_lateness(settings const& s);
rows postgres_write(settings const& s);
rows postgres_write_all(settings const& s);
rows postgres_end_to_end(settings const& s, delivery_ledger& ledger);
rows postgres_cold_drain(settings const& s, delivery_ledger& ledger, outbox::done_rows done);
rows postgres_cold_drain_one_tx(settings const& s, delivery_ledger& ledger);
rows postgres_cold_drain_defaults(settings const& s, delivery_ledger& ledger);
rows postgres_two_nodes(settings const& s, delivery_ledger& ledger);
rows postgres_hot_latency(settings const& s, delivery_ledger& ledger);
rows postgres_cross_latency(settings const& s);
rows postgres_idle(settings const& s);
rows postgres_wal(settings const& s, delivery_ledger& ledger);
rows postgres_claims(settings const& s);
rows postgres_keyed_drain_many(settings const& s, delivery_ledger& ledger);
rows postgres_keyed_drain_one(settings const& s, delivery_ledger& ledger);
rows postgres_keyed_write(settings const& s, delivery_ledger& ledger);
rows postgres_keyed_end_to_end(settings const& s, delivery_ledger& ledger);
rows postgres_keyed_hot_latency(settings const& s, delivery_ledger& ledger);
rows postgres_keyed_claims(settings const& s);
rows postgres_keyed_order();
rows mysql_write(settings const& s);
rows mysql_write_all(settings const& s);
rows mysql_end_to_end(settings const& s, delivery_ledger& ledger);
rows mysql_cold_drain(settings const& s, delivery_ledger& ledger, outbox::done_rows done);
rows mysql_hot_latency(settings const& s, delivery_ledger& ledger);
rows mysql_cross_latency(settings const& s);
rows mysql_claims(settings const& s);
rows redis_write(settings const& s);
rows redis_end_to_end(settings const& s, delivery_ledger& ledger, re::fsync when);
rows redis_cold_drain(settings const& s, delivery_ledger& ledger, re::fsync when);
rows redis_hot_latency(settings const& s, delivery_ledger& ledger);
rows redis_claims(settings const& s);
rows memory_use(settings const& s);
rows kafka_relay(settings const& s);

/// The same payload everywhere.
inline std::string const payload =
    R"({"order":"0123456789","cents":1999,"note":"a payload of a usual size, about a hundred bytes"})";

}  // namespace bench
