#include "mysql/server.hpp"

#include <map>

#include "sql/schema.hpp"

namespace outbox::inline v0::mysql {
namespace {

using severity = spi::finding::severity;
using variables = std::map<std::string, std::string, std::less<>>;

// Of all that are asked for, those that this server has.
variables read_variables(sql::connection& c, std::string_view names) {
  variables found;
  c.execute("SHOW GLOBAL VARIABLES WHERE Variable_name IN (" + std::string{names} + ")", {}, [&](sql::row const& r) {
    found.emplace(r.text(0), r.text(1));
    return true;
  });
  return found;
}

bool is(variables const& v, std::string_view name, std::string_view value) {
  auto const at = v.find(name);
  return at != v.end() && at->second == value;
}

std::string version_text(unsigned long number) {
  return std::to_string(number / 10'000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

// InnoDB does not write a log of statements at the isolation level that the store needs.
void check_binary_log(variables const& v) {
  if (!is(v, "log_bin", "ON") || !is(v, "binlog_format", "STATEMENT")) return;
  sql::refuse(
      "the server's binlog_format is STATEMENT, with which InnoDB refuses changes at READ COMMITTED: set it to MIXED "
      "or "
      "ROW");
}

}  // namespace

server look_at_server(MYSQL* c) {
  constexpr unsigned long oldest_mariadb = 100'600;
  constexpr unsigned long oldest_mysql = 80'014;
  constexpr std::size_t smallest_packet = std::size_t{256} << 10U;  // for the claims and renewals of a full node
  server s;
  s.mariadb = mariadb_connection(c) != 0;
  s.collation = s.mariadb ? "utf8mb4_nopad_bin" : "utf8mb4_0900_bin";
  auto const version = mysql_get_server_version(c);
  if (version < (s.mariadb ? oldest_mariadb : oldest_mysql)) {
    sql::refuse("this library needs MariaDB 10.6 or MySQL 8.0.14, or later; the server is " +
                std::string{s.mariadb ? "MariaDB " : "MySQL "} + version_text(version));
  }
  driver d{c};
  auto const v = read_variables(d,
                                "'log_bin', 'binlog_format', 'wsrep_on', 'group_replication_single_primary_mode', "
                                "'group_replication_group_name'");
  check_binary_log(v);
  s.max_packet = static_cast<std::size_t>(d.ask<std::int64_t>("SELECT @@max_allowed_packet").value_or(0));
  if (s.max_packet < smallest_packet) {
    sql::refuse("the server's max_allowed_packet is " + std::to_string(s.max_packet) + ", the store needs at least " +
                std::to_string(smallest_packet));
  }
  if (is(v, "wsrep_on", "ON")) s.cluster = "a Galera cluster";
  auto const group = v.find("group_replication_group_name");
  if (group != v.end() && !group->second.empty() && is(v, "group_replication_single_primary_mode", "OFF")) {
    s.cluster = "a group with several primaries";
  }
  s.clustered = !s.cluster.empty();
  return s;
}

std::vector<spi::finding> look_at_settings(sql::connection& c, server const& s) {
  std::vector<spi::finding> found;
  auto const v = read_variables(
      c,
      "'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'innodb_doublewrite', 'innodb_rollback_on_timeout', "
      "'auto_increment_increment', 'max_allowed_packet'");
  if (auto const at = v.find("innodb_flush_log_at_trx_commit"); at != v.end() && at->second != "1") {
    found.push_back({severity::warning, "innodb_flush_log_at_trx_commit",
                     "The server has innodb_flush_log_at_trx_commit = " + at->second +
                         ": a commit that was delivered may be gone after a power failure. Set it to 1."});
  }
  if (auto const at = v.find("sync_binlog"); at != v.end() && at->second != "1" && is(v, "log_bin", "ON")) {
    found.push_back({severity::warning, "sync_binlog",
                     "The server has sync_binlog = " + at->second +
                         ": after a power failure, replicas may lack a commit that was delivered. Set it to 1."});
  }
  if (s.clustered) {
    found.push_back({severity::warning, "cluster",
                     "The server is part of " + s.cluster +
                         ": locks by name hold on one server only, so there is no dispatch lock, and claims on several "
                         "servers meet conflicts, which are tried again. Let all nodes use one server."});
  }
  if (auto const at = v.find("auto_increment_increment"); at != v.end() && at->second != "1" && !s.clustered) {
    found.push_back({severity::note, "auto_increment_increment",
                     "The server has auto_increment_increment = " + at->second +
                         ": if several servers take writes, seq is not the order of the commits."});
  }
  return found;
}

}  // namespace outbox::inline v0::mysql
