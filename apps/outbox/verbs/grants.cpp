// `outbox grants`: the SQL, or the rules of Redis, that give a user the rights of one role, and no others.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#ifdef OUTBOX_HAS_POSTGRES
#include <outbox/postgres.hpp>
#endif

#include "cli/console.hpp"
#include "cli/shown_text.hpp"
#include "cli/store_url.hpp"
#include "cli/target.hpp"
#include "cli/tool_error.hpp"
#include "redis_rules.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

struct grants_options {
  target_options table;
  output_options output;
  std::string role, user, host;
};

/// What is printed: statements to run, and sentences for the person who runs them.
struct script {
  std::vector<std::string> about{};       ///< Before the statements.
  std::vector<std::string> statements{};  ///< Without semicolons.
  std::vector<std::string> notes{};       ///< Behind them.
};

/// A right on one of the four tables.
struct right {
  char const* what;
  char const* on;  ///< event, meta, node or audit
};

// `SELECT (event_id, locked_by)` lets a transaction of the library ask which of its events are there.
std::vector<right> rights_of(std::string const& role) {
  if (role == "writer") {
    return {{"INSERT", "event"}, {"SELECT (event_id, locked_by)", "event"}, {"SELECT", "meta"}};
  }
  if (role == "dispatcher") {
    return {{"SELECT, UPDATE, DELETE", "event"},
            {"SELECT, INSERT, UPDATE", "meta"},
            {"SELECT, INSERT, UPDATE, DELETE", "node"}};
  }
  if (role == "operator") {
    return {{"SELECT, UPDATE, DELETE", "event"},
            {"SELECT, INSERT, UPDATE", "meta"},
            {"SELECT", "node"},
            {"SELECT, INSERT, UPDATE", "audit"}};
  }
  std::vector<right> all;
  auto const* const what = role == "reader" ? "SELECT" : "SELECT, INSERT, UPDATE, CREATE, ALTER, INDEX, DROP";
  for (auto const* const on : {"event", "meta", "node", "audit"}) all.push_back({what, on});
  return all;
}

std::string sentence_of(std::string const& role) {
  if (role == "writer") return "A writer only writes events, in its own transactions.";
  if (role == "dispatcher") return "A dispatcher is a node or a relay: it delivers, settles, purges and pauses.";
  if (role == "operator") return "An operator runs the verbs of the tool, those that change rows too.";
  if (role == "reader") return "A reader runs the verbs that only read. It sees the payloads.";
  return "An owner runs outbox migrate.";
}

/// The quotes are doubled inside; nothing else has a meaning between them.
std::string in_quotes(std::string_view name, char quote) {
  std::string text{quote};
  for (char const c : name) text += c == quote ? std::string(2, quote) : std::string{c};
  return text + quote;
}

// Names stand in quotes. What no quoting helps with is refused: control characters, which also end a comment, bytes
// that are no UTF-8, and names that a server would cut, so that they name another user.
void check_name(char const* option, std::string const& name, std::size_t longest) {
  if (name.empty()) refuse(std::string{option} + " is missing: whose rights?", "For example: --user relay");
  if (name.size() > longest) {
    refuse(std::string{option} + " has " + std::to_string(name.size()) + " bytes, and names have at most " +
           std::to_string(longest));
  }
  std::string plain;
  for (char const c : name) plain += c == '\\' ? std::string{"\\\\"} : std::string{c};
  if (shown(name) != plain) refuse(std::string{option} + " has characters that cannot be seen: '" + shown(name) + "'");
}

/// The names of the tables, which the library limits to letters, digits and underscores.
struct table_names {
  explicit table_names(store_url const& url) : event{url.parameter("table", "outbox_event")} {
    auto const allowed = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    if (event.empty() || event.size() > 48 || !std::ranges::all_of(event, allowed)) {
      refuse("the URL names a table that no outbox can have: letters, digits and underscores, 48 at most");
    }
  }
  [[nodiscard]] std::string of(std::string const& which) const {
    if (which == "event") return event;
    return (event == "outbox_event" ? "outbox" : event) + "_" + which;
  }
  std::string event;
};

std::string schema_of(store_url const& url) {
  if (auto given = url.parameter("schema"); !given.empty()) return given;
#ifdef OUTBOX_HAS_POSTGRES
  outbox::postgres::connection db{url.connection};
  auto const found = db.query_one<std::optional<std::string>>("SELECT current_schema()::text");
  if (!found) refuse("no schema of the search path exists", "Name one in the URL: outbox.schema=…");
  return *found;
#else
  refuse("this tool was built without PostgreSQL: name the schema in the URL, as outbox.schema=…");
#endif
}

script for_postgres(grants_options const& o, store_url const& url) {
  constexpr std::size_t longest_name = 63;
  check_name("--user", o.user, longest_name);
  if (!o.host.empty()) refuse("--host is for MariaDB and MySQL: pg_hba.conf says from where a role may come");
  table_names const names{url};
  auto const schema = in_quotes(schema_of(url), '"');
  auto const user = in_quotes(o.user, '"');
  auto const table = [&](std::string const& which) { return schema + "." + in_quotes(names.of(which), '"'); };
  script s;
  if (o.role == "owner") {
    s.about = {"Run this as the owner of the schema."};
    s.statements = {"GRANT USAGE, CREATE ON SCHEMA " + schema + " TO " + user};
    s.notes = {"If the tables are there and another role made them, the upgrade needs their ownership:"};
    for (auto const* const which : {"event", "meta", "node", "audit"}) {
      s.notes.push_back("ALTER TABLE " + table(which) + " OWNER TO " + user + ";");
    }
    return s;
  }
  s.about = {"Run this as the owner of the tables, after outbox migrate."};
  s.statements = {"GRANT USAGE ON SCHEMA " + schema + " TO " + user};
  for (auto const& r : rights_of(o.role)) {
    s.statements.push_back(std::string{"GRANT "} + r.what + " ON " + table(r.on) + " TO " + user);
  }
  if (o.role == "reader") {
    s.notes = {"To see the transactions of other roles too, which doctor looks at:",
               "GRANT pg_read_all_stats TO " + user + ";"};
  }
  return s;
}

// Rights on tables, not on the database: in GRANT … ON database.* an underscore is a wildcard.
script for_mysql(grants_options const& o, store_url const& url) {
  constexpr std::size_t longest_name = 80;
  check_name("--user", o.user, longest_name);
  auto const host = o.host.empty() ? "%" : o.host;
  check_name("--host", host, 255);
  table_names const names{url};
  auto const database = url.parameter("database", url.database_in_path());
  if (database.empty()) refuse("the URL names no database", "For example: --db mysql://root@db1/shop");
  // In backquotes a backslash has no meaning, whatever the server's sql_mode is.
  auto const user = in_quotes(o.user, '`') + "@" + in_quotes(host, '`');
  script s;
  s.about = {o.role == "owner" ? "The tables need not be there: CREATE is among the rights."
                               : "Run this after outbox migrate: the tables must be there."};
  for (auto const& r : rights_of(o.role)) {
    s.statements.push_back(std::string{"GRANT "} + r.what + " ON " + in_quotes(database, '`') + "." +
                           in_quotes(names.of(r.on), '`') + " TO " + user);
  }
  if (o.role == "owner") {
    std::string pattern;
    for (char const c : database) pattern += c == '_' || c == '%' || c == '\\' ? std::string{'\\', c} : std::string{c};
    s.notes = {"To adopt a table of another program it needs this too, which is a right on the whole database:",
               "GRANT LOCK TABLES ON " + in_quotes(pattern, '`') + ".* TO " + user + ";"};
  }
  if (o.role == "reader") {
    s.notes = {"To see the transactions of other users too, which doctor looks at, a right on the whole server:",
               "GRANT PROCESS ON *.* TO " + user + ";"};
  }
  return s;
}

script for_sqlite(grants_options const& o) {
  script s;
  s.about = {"SQLite has no users and no roles: the modes of the file and of its directory decide."};
  if (o.role == "reader") {
    s.notes = {"The user of the process needs to read the database, and the files beside it that end in -wal and",
               "-shm. If no program has the database open, these are missing, and reading makes them: then the",
               "directory must be writable too."};
  } else {
    s.notes = {"The user of the process needs to read and to write the database, and to write in its directory: SQLite",
               "makes the files -wal and -shm there, and a node its lock file. So give programs that share a",
               "database one group: chgrp GROUP the directory and the files, chmod g+rws the directory, chmod g+rw",
               "the files, and umask 007 for the programs. A writer can do all that a dispatcher can."};
  }
  return s;
}

// Three commands: the server refuses a rule about keys or channels of a user that may use all of them, and nothing of
// that command takes effect then.
script for_redis(grants_options const& o, store_url const& url) {
  constexpr std::size_t longest_name = 128, longest_outbox = 400;
  check_name("--user", o.user, longest_name);
  if (o.user.find(' ') != std::string::npos) refuse("--user has a space in it, and names of Redis have none");
  if (!o.host.empty()) refuse("--host is for MariaDB and MySQL: Redis does not ask from where a user comes");
  auto const name = url.outbox_name();
  check_name("the name of the outbox", name, longest_outbox);
  auto const database = url.database_in_path();
  auto const rules = redis_rules_of(o.role, name, !database.empty() && database != "0");
  auto const user = "ACL SETUSER " + cli_word(o.user);
  script s;
  s.about = {"Run this with redis-cli. It adds to what the user has, and makes a user that is not there."};
  for (auto const* const part : {&rules.commands, &rules.keys, &rules.channels}) {
    if (part->empty()) continue;
    auto statement = user;
    for (auto const& rule : *part) statement += " " + cli_word(rule);
    s.statements.push_back(std::move(statement));
  }
  s.notes = {"A user that was made now has no password and is off: " + user + " on >PASSWORD"};
  if (!rules.channels.empty()) {
    s.notes.emplace_back("On Redis 6.2 a new user may use every channel, and the rule for one is refused: run " + user +
                         " resetchannels first.");
  }
  if (o.role == "writer") s.notes.push_back("With outbox.replicas it needs this too: " + user + " +wait");
  s.notes.emplace_back("Keep it over a restart: ACL SAVE, or CONFIG REWRITE if the server has no aclfile.");
  return s;
}

std::string text_of(script const& s, std::string const& role) {
  std::string text = "-- " + sentence_of(role) + "\n";
  for (auto const& line : s.about) text += "-- " + line + "\n";
  for (auto const& statement : s.statements) text += statement + ";\n";
  for (auto const& line : s.notes) text += "-- " + line + "\n";
  return text;
}

// redis-cli knows no comments: what is not a command goes to standard error.
void print_for_redis(console& to, script const& s, std::string const& role) {
  to.say(sentence_of(role));
  for (auto const& line : s.about) to.say(line);
  for (auto const& statement : s.statements) to.out(statement + "\n");
  for (auto const& line : s.notes) to.say(line);
}

int run(grants_options const& o) {
  console to{o.output};
  target const from{o.table};
  if (from.has_layout()) {
    refuse("the table has a layout: its rights are those of the program that made it",
           "A node needs SELECT, UPDATE and, if it writes, INSERT on it.");
  }
  auto const url = store_url::parse(from.url(), "grants");
  bool const redis = url.kind == database_kind::redis;
  auto const s = url.kind == database_kind::sqlite     ? for_sqlite(o)
                 : url.kind == database_kind::postgres ? for_postgres(o, url)
                 : redis                               ? for_redis(o, url)
                                                       : for_mysql(o, url);
  if (to.chosen() == form::json) {
    to.document({{"role", o.role},
                 {"user", o.user},
                 {"database", from.shown()},
                 {"statements", s.statements},
                 {"notes", s.notes}});
  } else if (redis) {
    print_for_redis(to, s, o.role);
  } else {
    to.out(text_of(s, o.role));
  }
  to.flush();
  if (!s.statements.empty()) {
    to.say(std::string{"Nothing was changed: "} + (redis ? "these are commands" : "this is SQL") +
           " to look at and to run.");
  }
  return exit_good;
}

}  // namespace

void add_grants(command_tree& tree) {
  auto const o = std::make_shared<grants_options>();
  auto& verb = tree.add(
      "grants",
      {.summary = "print what gives a user the rights of one role, and no others",
       .details =
           "The roles: writer, a program that only writes events in its own transactions; dispatcher, a node or a "
           "relay; operator, a person who replays, discards, cancels, purges and pauses with this tool; reader, for "
           "status, "
           "list, doctor and the other verbs that only read; owner, which runs migrate. A program that writes and "
           "delivers as one user needs two of them.\n\nIt changes nothing, and creates no user. It connects only "
           "if the URL of PostgreSQL does not name the schema (outbox.schema). For Redis it prints commands ACL "
           "SETUSER, which make the user if it is not there. SQLite has no roles: for it the verb explains the modes "
           "of files.",
       .examples = {{"outbox grants dispatcher --user relay --db 'postgresql://db1/shop?outbox.schema=shop'",
                     "for a relay"},
                    {"outbox grants writer --user shop --host '10.%' --db mysql://db1/shop | mariadb -h db1 -u root",
                     "and run it"},
                    {"outbox grants writer --user shop --db redis://db1 | redis-cli -h db1", "the same on Redis"},
                    {"outbox grants reader --user monitor --config /etc/outbox/relay.toml", "for monitoring"}}},
      [o] { return run(*o); });
  verb.add_option("role", o->role, "what the user does")
      ->type_name("writer|dispatcher|operator|reader|owner")
      ->required()
      ->check(CLI::IsMember({"writer", "dispatcher", "operator", "reader", "owner"}).description(""));
  verb.add_option("--user", o->user, "the user or role of the database that gets the rights")->type_name("NAME");
  verb.add_option("--host", o->host, "MariaDB and MySQL: from where the user comes (%)")->type_name("HOST");
  o->table.add_to(verb);
  o->output.add_to(verb);
}

}  // namespace outbox_tool
