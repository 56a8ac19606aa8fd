// What a server does beside the table: old transactions, rights, and how the connection reaches it.
#include "mysql/checks.hpp"
#include "sql/findings.hpp"

namespace outbox::inline v0::mysql {
namespace {

using spi::check;
using spi::finding_level;
using std::chrono::seconds;

constexpr std::string_view horizon =
    "While it is open, InnoDB removes no older versions of rows, and claims get slower.";
constexpr std::string_view needs_process =
    "GRANT PROCESS ON *.* TO CURRENT_USER(); -- as an administrator, with the name of the user";

std::string variable(checked const& on, std::string_view names) {
  std::string value;
  on.d.execute("SHOW GLOBAL VARIABLES WHERE Variable_name IN (" + std::string{names} + ")", {}, [&](sql::row const& r) {
    value = r.text(1);
    return false;
  });
  return value;
}

void check_writable(checked const& on) {
  check const here{on.found, "read_only_server", "A server that takes no writes claims and settles nothing."};
  if (variable(on, "'read_only'") != "ON") return here.passed("The server takes writes.");
  here.problem("The server has read_only = ON.", "SET GLOBAL read_only = OFF; -- or connect to the primary");
}

void check_isolation(checked const& on) {
  check const here{
      on.found, "isolation",
      "Transactions of the application that write events at a higher level meet more locks and deadlocks."};
  auto const level = variable(on, "'tx_isolation', 'transaction_isolation'");
  auto const text = "Sessions of the application begin with the isolation level " + level + ".";
  if (level != "SERIALIZABLE") return here.passed(text);
  here.note(text, "SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED;");
}

void check_history(checked const& on) {
  check const here{on.found, "history_length",
                   "Statements read past the old versions of rows until InnoDB removes them."};
  here.attempt(
      [&] {
        std::optional<std::int64_t> length;
        on.d.execute("SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'", {}, [&](sql::row const& r) {
          length = r.integer(1);
          return false;
        });
        if (!length) {
          length = on.d.ask<std::int64_t>(
              "SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'");
        }
        if (!length) return here.skipped("The server does not tell how many transactions wait for its purge.");
        auto const level = on.limits.history.judge(static_cast<std::uint64_t>(*length));
        here.says(
            level, "Old versions of rows of " + std::to_string(*length) + " transactions wait for InnoDB's purge.",
            level == finding_level::passed ? "" : "SELECT * FROM information_schema.innodb_trx ORDER BY trx_started;");
      },
      std::string{needs_process});
}

// InnoDB tells when a transaction began in the time zone of the machine, whatever that of the session is.
std::string age_of(std::string const& began) {
  return "greatest(timestampdiff(SECOND, " + began + ", convert_tz(utc_timestamp(), '+00:00', 'SYSTEM')), 0)";
}

void check_transactions(checked const& on) {
  check const here{on.found, "old_transaction", horizon};
  here.attempt(
      [&] {
        std::string session;
        seconds age{0};
        on.d.execute(
            "SELECT trx_mysql_thread_id, " + age_of("trx_started") +
                " FROM information_schema.innodb_trx WHERE trx_mysql_thread_id NOT IN (0, connection_id()) ORDER BY "
                "trx_started LIMIT 1",
            {}, [&](sql::row const& r) {
              session = r.text(0);
              age = seconds{r.integer(1)};
              return false;
            });
        if (session.empty()) return here.passed("No transaction of another session is open.");
        auto const level = on.limits.transaction_age.judge(age);
        here.says(level,
                  "The oldest transaction is open for " + sql::duration_text(age) + " (session " + session + ").",
                  level == finding_level::passed ? "" : "KILL " + session + ";");
      },
      std::string{needs_process});
}

// What the XA transaction is called, and since when it is there: the first is asked of the transaction manager, the
// second of InnoDB, which does not know the name.
void check_prepared(checked const& on) {
  check const here{on.found, "prepared_transaction", horizon};
  here.attempt(
      [&] {
        std::string name;
        std::uint64_t prepared = 0;
        on.d.execute("XA RECOVER", {}, [&](sql::row const& r) {
          if (++prepared == 1) name = r.text(3);
          return true;
        });
        if (prepared == 0) return here.passed("No transaction is prepared.");
        auto const age = on.d.ask<std::int64_t>("SELECT " + age_of("min(trx_started)") +
                                                " FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = 0");
        if (!age) return here.passed(sql::counted(prepared, "transaction") + " that a session still has are prepared.");
        auto const level = on.limits.transaction_age.judge(seconds{*age});
        here.says(level,
                  sql::counted(prepared, "transaction") + " without a session, one called '" + name +
                      "', prepared for " + sql::duration_text(seconds{*age}) + ".",
                  level == finding_level::passed ? "" : "XA ROLLBACK '" + name + "'; -- or XA COMMIT");
      },
      std::string{needs_process});
}

void check_tls(checked const& on) {
  auto* const c = on.d.raw();
  auto const text = [](char const* t) { return t == nullptr ? std::string_view{} : std::string_view{t}; };
  auto const info = text(mysql_get_host_info(c));  // "db.example via TCP/IP", "Localhost via UNIX socket"
  spi::transport t{.encrypted = !text(mysql_get_ssl_cipher(c)).empty()};
  if (info.find("UNIX socket") == std::string_view::npos) t.peer = info.substr(0, info.find(' '));
  my_bool verify = 0;
  mysql_get_optionv(c, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
  t.verified = verify != 0;
  t.fix = "Add ssl=verify and ca=FILE to the URL.";
  spi::check_transport(t, on.found);
}

// An EXPLAIN needs the rights of its statement, and changes nothing. It also knows roles. Other errors than a missing
// right, such as that of a session which only reads, come after the rights were checked.
bool may(checked const& on, std::string const& statement) {
  try {
    on.d.execute("EXPLAIN " + statement);
    return true;
  } catch (error const& e) {
    if (e.transient() && mysql_errno(on.d.raw()) == 0) throw;
    auto const number = mysql_errno(on.d.raw());
    if (loses_connection(number)) throw;
    return number != code::access_denied_to_table && number != code::access_denied_to_column &&
           number != code::access_denied_to_database;
  }
}

void check_privileges(checked const& on) {
  check const here{on.found, "privileges", "A node claims, settles and reports with these rights."};
  std::string text, fix;
  auto const user = on.d.ask<std::string>("SELECT current_user()").value_or("");
  auto const at = user.rfind('@');
  auto const account = "'" + user.substr(0, at) + "'@'" + (at == std::string::npos ? "%" : user.substr(at + 1)) + "'";
  struct probe {  // what `outbox grants dispatcher` gives
    char const* table;
    char const* column;
    bool inserts, deletes;
  };
  for (auto const& p : {probe{"outbox_event", "event_id", false, true}, probe{"outbox_meta", "value", true, false},
                        probe{"outbox_node", "name", true, true}}) {
    auto const table = on.named(p.table);
    std::string missing;
    auto const ask = [&](std::string const& right, std::string const& statement) {
      if (!may(on, statement)) missing += (missing.empty() ? "" : ", ") + right;
    };
    ask("SELECT", "SELECT 1 FROM " + table);
    if (p.inserts) ask("INSERT", "INSERT INTO " + table + " (" + p.column + ") VALUES ('')");
    ask("UPDATE", "UPDATE " + table + " SET " + p.column + " = ''");
    if (p.deletes) ask("DELETE", "DELETE FROM " + table);
    if (missing.empty()) continue;
    text += (text.empty() ? "" : "; ") + missing + " on " + table;
    fix += (fix.empty() ? "" : "\n") + ("GRANT " + missing + " ON " + table + " TO " + account + ";");
  }
  if (text.empty()) return here.passed("The user " + account + " has the rights of a node.");
  here.problem("The user " + account + " lacks rights of a node: " + text + ".", fix);
}

void check_superuser(checked const& on) {
  check const here{on.found, "superuser", "A mistake in a program that may do everything can destroy everything."};
  here.attempt([&] {
    bool all = false;
    on.d.execute("SHOW GRANTS", {}, [&](sql::row const& r) {
      auto const grant = r.text(0);
      bool const server = grant.find(" ON *.* ") != std::string_view::npos;
      all = all || (server && (grant.find("ALL PRIVILEGES") != std::string_view::npos ||
                               grant.find("SUPER") != std::string_view::npos));
      return true;
    });
    if (!all) return here.passed("The user has no rights on the whole server.");
    here.warning("The user may do everything on the server.",
                 "CREATE USER relay;\noutbox grants dispatcher --user relay");
  });
}

}  // namespace

void check_server(checked const& on) {
  check_writable(on);
  check_isolation(on);
  check_history(on);
  check_transactions(on);
  check_prepared(on);
  check_tls(on);
  check_privileges(on);
  check_superuser(on);
}

}  // namespace outbox::inline v0::mysql
