#include "suites.hpp"

#include "redis_by_hand.hpp"

namespace bench {
namespace {

suite duplicates(std::string const& database, delivery_ledger const& ledger) {
  auto const name = database + ".duplicates";
  return {{name}, [name, &ledger]() -> rows {
            return {alone({name, "events", at_most(0),
                           "deliveries beyond the first of an event, over every row of this run that delivers"},
                          {static_cast<double>(ledger.duplicates())})};
          }};
}

}  // namespace

std::vector<suite> all_suites(settings const& s, delivery_ledger& on_sqlite, delivery_ledger& on_postgres,
                              delivery_ledger& on_mysql, delivery_ledger& on_redis) {
  using outbox::done_rows;
  auto& lite = on_sqlite;
  auto& pg = on_postgres;
  auto& my = on_mysql;
  using re::fsync;
  return {
      {{"sqlite.write.1", "sqlite.write.1.normal"}, [&] { return sqlite_write(s); }},
      {{"sqlite.write_all.100"}, [&] { return sqlite_write_all(s); }},
      {{"sqlite.end_to_end"}, [&] { return sqlite_end_to_end(s, lite, true); }},
      {{"sqlite.end_to_end.normal"}, [&] { return sqlite_end_to_end(s, lite, false); }},
      {{"sqlite.cold_drain"}, [&] { return sqlite_cold_drain(s, lite, done_rows::keep); }},
      {{"sqlite.cold_drain.erase"}, [&] { return sqlite_cold_drain(s, lite, done_rows::erase); }},
      {{"sqlite.cold_drain.defaults"}, [&] { return sqlite_cold_drain_defaults(s, lite); }},
      {{"sqlite.cold_drain.lean"}, [&] { return sqlite_cold_drain_lean(s, lite); }},
      {{"sqlite.hot_latency.p50", "sqlite.hot_latency.p99"}, [&] { return sqlite_hot_latency(s, lite); }},
      {{"sqlite.cross_latency.p50", "sqlite.cross_latency.p99"}, [&] { return sqlite_cross_latency(s); }},
      {{"sqlite.idle_wakeups", "sqlite.idle_cpu", "sqlite.idle_first_event"}, [&] { return sqlite_idle(s); }},
      {{"sqlite.claim"}, [&] { return sqlite_claims(s); }},
      {{"sqlite.wal_bytes_per_event"}, [&] { return sqlite_wal(s, lite); }},
      {{"sqlite.retry_lateness.p99"}, [&] { return sqlite_retry_lateness(s); }},
      {{"rss.idle", "rss.overload", "rss.store_away"}, [&] { return memory_use(s); }},
      duplicates("sqlite", lite),
      {{"postgres.write"}, [&] { return postgres_write(s); }},
      {{"postgres.write_all.100"}, [&] { return postgres_write_all(s); }},
      {{"postgres.end_to_end", "postgres.commits_per_event"}, [&] { return postgres_end_to_end(s, pg); }},
      {{"postgres.cold_drain"}, [&] { return postgres_cold_drain(s, pg, done_rows::keep); }},
      {{"postgres.cold_drain.erase", "postgres.cold_drain.erase.wal"},
       [&] { return postgres_cold_drain(s, pg, done_rows::erase); }},
      {{"postgres.cold_drain.one_tx"}, [&] { return postgres_cold_drain_one_tx(s, pg); }},
      {{"postgres.cold_drain.defaults"}, [&] { return postgres_cold_drain_defaults(s, pg); }},
      {{"postgres.cold_drain.two_nodes", "postgres.cold_drain.two_nodes.cpu", "postgres.cold_drain.two_nodes.waits"},
       [&] { return postgres_two_nodes(s, pg); }},
      {{"postgres.hot_latency.p50", "postgres.hot_latency.p99"}, [&] { return postgres_hot_latency(s, pg); }},
      {{"postgres.cross_latency.p50", "postgres.cross_latency.p99"}, [&] { return postgres_cross_latency(s); }},
      {{"postgres.idle_wakeups", "postgres.idle_cpu", "postgres.idle_first_event"}, [&] { return postgres_idle(s); }},
      {{"postgres.claim"}, [&] { return postgres_claims(s); }},
      {{"postgres.wal_bytes_per_event"}, [&] { return postgres_wal(s, pg); }},
      {{"postgres.keyed.cold_drain.many"}, [&] { return postgres_keyed_drain_many(s, pg); }},
      {{"postgres.keyed.cold_drain.one"}, [&] { return postgres_keyed_drain_one(s, pg); }},
      {{"postgres.keyed.write.1"}, [&] { return postgres_keyed_write(s, pg); }},
      {{"postgres.keyed.end_to_end"}, [&] { return postgres_keyed_end_to_end(s, pg); }},
      {{"postgres.keyed.hot_latency.p50", "postgres.keyed.hot_latency.p99"},
       [&] { return postgres_keyed_hot_latency(s, pg); }},
      {{"postgres.keyed.claim"}, [&] { return postgres_keyed_claims(s); }},
      {{"postgres.keyed.inversions"}, [] { return postgres_keyed_order(); }},
      duplicates("postgres", pg),
      {{"mysql.write"}, [&] { return mysql_write(s); }},
      {{"mysql.write_all.100"}, [&] { return mysql_write_all(s); }},
      {{"mysql.end_to_end", "mysql.commits_per_event"}, [&] { return mysql_end_to_end(s, my); }},
      {{"mysql.cold_drain"}, [&] { return mysql_cold_drain(s, my, done_rows::keep); }},
      {{"mysql.cold_drain.erase"}, [&] { return mysql_cold_drain(s, my, done_rows::erase); }},
      {{"mysql.hot_latency.p50", "mysql.hot_latency.p99"}, [&] { return mysql_hot_latency(s, my); }},
      {{"mysql.cross_latency.p50", "mysql.cross_latency.p99"}, [&] { return mysql_cross_latency(s); }},
      {{"mysql.claim"}, [&] { return mysql_claims(s); }},
      duplicates("mysql", my),
      {{"redis.write.1", "redis.write.1.always"}, [&] { return redis_write(s); }},
      {{"redis.end_to_end"}, [&] { return redis_end_to_end(s, on_redis, fsync::everysec); }},
      {{"redis.end_to_end.always"}, [&] { return redis_end_to_end(s, on_redis, fsync::always); }},
      {{"redis.cold_drain"}, [&] { return redis_cold_drain(s, on_redis, fsync::everysec); }},
      {{"redis.cold_drain.always"}, [&] { return redis_cold_drain(s, on_redis, fsync::always); }},
      {{"redis.hot_latency.p50", "redis.hot_latency.p99"}, [&] { return redis_hot_latency(s, on_redis); }},
      {{"redis.claim"}, [&] { return redis_claims(s); }},
      duplicates("redis", on_redis),
      {{"kafka.relay", "kafka.relay.rss"}, [&] { return kafka_relay(s); }},
  };
}

}  // namespace bench
