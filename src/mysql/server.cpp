#include "mysql/server.hpp"

#include <map>
#include <outbox/spi/check.hpp>

#include "sql/schema.hpp"

namespace outbox::inline v0::mysql {
namespace {

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

std::vector<spi::finding> look_at_settings(sql::connection& c, server const& s, bool keyed) {
  using spi::check;
  std::vector<spi::finding> found;
  auto const v = read_variables(c,
                                "'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'innodb_doublewrite', "
                                "'auto_increment_increment'");
  auto const value = [&](std::string_view name) {
    auto const at = v.find(name);
    return at == v.end() ? std::string{} : at->second;
  };
  auto const one = [&](check const& here, std::string const& name, bool matters) {
    auto const text = "The server has " + name + " = " + value(name) + ".";
    if (!matters || value(name).empty() || value(name) == "1") return here.passed(text);
    here.warning(text, "SET GLOBAL " + name + " = 1;");
  };
  one({found, "innodb_flush_log_at_trx_commit",
       "With other values than 1, a commit that was delivered may be gone after a power failure."},
      "innodb_flush_log_at_trx_commit", true);
  one({found, "sync_binlog",
       "With other values than 1, replicas may lack a commit that was delivered after a power failure."},
      "sync_binlog", is(v, "log_bin", "ON"));
  check const pages{found, "innodb_doublewrite", "Without it a power failure can leave pages that are half written."};
  if (is(v, "innodb_doublewrite", "OFF")) {
    pages.warning("The server has innodb_doublewrite = OFF.", "Write innodb_doublewrite = ON to my.cnf, and restart.");
  } else {
    pages.passed("The server has innodb_doublewrite = " + value("innodb_doublewrite") + ".");
  }
  check const cluster{found, "cluster",
                      "Locks by name hold on one server only, so there is no dispatch lock, and claims on several "
                      "servers meet conflicts, which are tried again."};
  if (s.clustered) {
    cluster.warning("The server is part of " + s.cluster + ".", "Let all nodes use one server.");
  } else {
    cluster.passed("The server is not part of a cluster in which several servers take writes.");
  }
  check const steps{found, "auto_increment_increment",
                    "Where several servers take writes, each draws numbers of its own: then seq is not the order in "
                    "which events are written."};
  auto const text = "The server has auto_increment_increment = " + value("auto_increment_increment") + ".";
  if (value("auto_increment_increment") == "1" || s.clustered) {
    steps.passed(text);
  } else if (keyed) {
    steps.warning(text + " The table keeps an order of keys, which is that of seq.",
                  "SET GLOBAL auto_increment_increment = 1;");
  } else {
    steps.note(text, "SET GLOBAL auto_increment_increment = 1;");
  }
  return found;
}

}  // namespace outbox::inline v0::mysql
