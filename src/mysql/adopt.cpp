#include "mysql/adopt.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "mysql/migrate.hpp"
#include "sql/schema.hpp"
#include "sql/table_name.hpp"

namespace outbox::inline v0::mysql {
namespace {

std::string name_of(std::string_view definition) { return std::string{definition.substr(0, definition.find(' '))}; }

// "datetime" of "due_at datetime(6) NOT NULL".
std::string type_of(std::string_view definition) {
  definition.remove_prefix(std::min(definition.find(' '), definition.size()));
  definition.remove_prefix(std::min(definition.find_first_not_of(' '), definition.size()));
  return std::string{definition.substr(0, definition.find_first_of(" ("))};
}

bool is_key(std::string_view definition) noexcept {
  return definition.starts_with("PRIMARY") || definition.starts_with("UNIQUE") || definition.starts_with("KEY");
}

// The columns and keys of the event table, from the text of the schema.
std::vector<std::string> definitions() {
  static constexpr std::string_view begin = "EXISTS outbox_event (";
  auto rest = schema_sql.substr(schema_sql.find(begin) + begin.size());
  rest = rest.substr(0, rest.find("\n)"));
  std::vector<std::string> found;
  while (!rest.empty()) {
    auto const end = std::min(rest.find('\n'), rest.size());
    auto line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    line = line.substr(0, line.find("--"));
    auto const first = line.find_first_not_of(' ');
    if (first == std::string_view::npos) continue;
    line.remove_prefix(first);
    found.emplace_back(line.substr(0, line.find_last_not_of(" ,") + 1));
  }
  return found;
}

// A column of the plain DDL as it must be. A text that is longer there stays as long.
std::string changed(std::string definition, column_facts const& as_is, std::string const& collation) {
  for (std::string_view const type : {"varchar(", "longtext", "text"}) {
    auto const at = definition.find(" " + std::string{type});
    if (at == std::string::npos) continue;
    auto const first = definition.find(type, at);
    auto end = std::min(definition.find_first_of(" )", first), definition.size());
    if (end < definition.size() && definition[end] == ')') ++end;
    auto text = definition.substr(first, end - first);
    if (type == "varchar(" && as_is.length > static_cast<std::size_t>(std::stoul(text.substr(8)))) {
      text = "varchar(" + std::to_string(as_is.length) + ")";
    }
    if (text == "text" && as_is.length > 65'535) text = "longtext";
    definition.replace(first, end - first, text + " CHARACTER SET utf8mb4 COLLATE " + collation);
    break;
  }
  // Programs that leave an instant to the server go on doing so.
  if (as_is.filled && definition.ends_with("datetime(6) NOT NULL")) definition += " DEFAULT (utc_timestamp(6))";
  return definition;
}

bool keeps_json(options const& o, column_facts const& as_is) {
  return as_is.type == "json" && o.adopt_json == json_columns::keep;
}

class alteration {
 public:
  explicit alteration(std::string table) : text_{"ALTER TABLE " + std::move(table)} {}
  void add(std::string const& change) {
    text_ += (any_ ? ", " : " ") + change;
    any_ = true;
  }
  void run(driver& d) const {
    if (any_) d.send(sql_text{{}} << text_);
  }

 private:
  std::string text_;
  bool any_ = false;
};

// In bytes, when it is utf8mb4: that may be more than it has now.
std::size_t longest_error(driver& d, std::string const& table) {
  auto const sql = "SELECT max(length(convert(last_error USING utf8mb4))) FROM " + table;
  return static_cast<std::size_t>(d.ask<std::int64_t>(sql).value_or(0));
}

// MariaDB's JSON is a text with a condition.
void find_json(driver& d, options const& o, std::string const& database, table_columns& have) {
  for (auto const* const name : {"payload", "headers"}) {
    auto const column = have.find(name);
    auto const clause = "json_valid(`" + std::string{name} + "`)";
    if (column == have.end() ||
        !d.any(
            "SELECT 1 FROM information_schema.check_constraints WHERE constraint_schema = ?1 AND table_name = ?2 AND "
            "lower(check_clause) = ?3",
            {std::string_view{database}, std::string_view{o.table}, std::string_view{clause}})) {
      continue;
    }
    column->second.type = "json";
  }
}

// seq can be NULL until the rows are numbered.
void add_and_change_columns(driver& d, options const& o, std::string const& table, server const& s,
                            table_columns const& have, migration& report) {
  alteration change{table};
  for (auto const& definition : definitions()) {
    if (is_key(definition) || definition.find(" AS (") != std::string::npos) continue;
    auto const name = name_of(definition);
    auto const known = have.find(name);
    if (name == "seq") {
      if (known == have.end()) change.add("ADD COLUMN seq bigint");
    } else if (known == have.end()) {
      change.add("ADD COLUMN " + changed(definition, {}, s.collation));
    } else if (!sql::is_adoptable(name)) {
      continue;  // an earlier call has made it
    } else if (keeps_json(o, known->second)) {
      if (s.mariadb) continue;  // there it is a text
      report.warnings.push_back("column " + name +
                                " stays JSON: what is written comes back with other spacing and order");
    } else {
      if (known->second.type == "timestamp") {
        report.warnings.push_back("column " + name + " was a timestamp: it is a datetime in UTC now");
      }
      auto as_is = known->second;
      if (name == "last_error") as_is.length = std::max(as_is.length, longest_error(d, table));
      change.add("MODIFY COLUMN " + changed(definition, as_is, s.collation));
    }
  }
  change.add("ENGINE = InnoDB");
  change.run(d);
}

void number_rows(driver& d, std::string const& table) {
  d.execute("UPDATE " + table +
            " JOIN (SELECT event_id AS id, row_number() OVER (ORDER BY created_at, event_id) AS n "
            "FROM " +
            table + " s) x ON x.id = event_id SET seq = x.n");
}

// Columns that were just added have a default, which is wrong for old rows.
void correct_rows(driver& d, std::string const& table, table_columns const& have) {
  d.execute(
      "UPDATE " + table +
      " SET locked_by = if(status IN (0, 2) AND locked_at IS NOT NULL, locked_by, NULL), locked_at = if(status IN "
      "(0, 2), locked_at, NULL), done_at = if(status IN (1, 3), coalesce(done_at, created_at), NULL)" +
      (have.contains("inserted_at") ? "" : ", inserted_at = created_at"));
}

std::vector<std::string> keys_of(sql::connection& c, std::string const& table, std::string const& database) {
  std::vector<std::string> found;
  c.execute("SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = ?1 AND table_name = ?2",
            {std::string_view{database}, std::string_view{table}}, [&](sql::row const& r) {
              found.emplace_back(r.text(0));
              return true;
            });
  return found;
}

void add_keys(driver& d, options const& o, std::string const& database, std::string const& table,
              table_columns const& have) {
  auto const keys = keys_of(d, o.table, database);
  auto const there = [&](std::string const& name) { return std::ranges::find(keys, name) != keys.end(); };
  alteration change{table};
  if (there("PRIMARY")) change.add("DROP PRIMARY KEY");
  change.add("MODIFY COLUMN seq bigint NOT NULL AUTO_INCREMENT FIRST");
  for (auto const& definition : definitions()) {
    if (definition.find(" AS (") != std::string::npos) {
      if (!have.contains(name_of(definition))) change.add("ADD COLUMN " + definition);
    } else if (is_key(definition)) {
      auto const text = sql::with_table(definition, o.table, {}, '`');
      auto const name = o.table + (definition.find("_due") != std::string::npos     ? "_due"
                                   : definition.find("_ended") != std::string::npos ? "_ended"
                                                                                    : "_id");
      if (definition.starts_with("PRIMARY") || !there(name)) change.add("ADD " + text);
    }
  }
  change.run(d);
}

}  // namespace

table_columns columns_of(sql::connection& c, std::string const& table, std::string const& database) {
  table_columns found;
  c.execute(
      "SELECT lower(column_name), data_type, column_type, coalesce(character_maximum_length, 0), is_nullable = 'NO' "
      "AND "
      "column_default IS NULL AND extra NOT LIKE '%auto_increment%' AND extra NOT LIKE '%GENERATED%' AND extra NOT "
      "LIKE "
      "'%DEFAULT%', extra LIKE '%auto_increment%', extra LIKE '%GENERATED%' AND extra NOT LIKE '%DEFAULT%', "
      "coalesce(column_default, 'NULL') <> 'NULL' FROM information_schema.columns WHERE table_schema = ?1 AND "
      "table_name = ?2",
      {std::string_view{database}, std::string_view{table}}, [&](sql::row const& r) {
        found.emplace(r.text(0), column_facts{std::string{r.text(1)}, std::string{r.text(2)},
                                              static_cast<std::size_t>(r.integer(3)), r.integer(4) != 0,
                                              r.integer(5) != 0, r.integer(6) != 0, r.integer(7) != 0});
        return true;
      });
  return found;
}

void check_adoptable(sql::connection& c, std::string const& table, std::string const& database,
                     table_columns const& have) {
  std::vector<std::string> missing;
  for (auto const* const name : {"event_id", "event_type", "payload", "status", "available_at", "created_at"}) {
    if (!have.contains(name)) missing.emplace_back(name);
  }
  if (!missing.empty()) {
    sql::refuse("there is a table '" + table + "' that is not an outbox table: it has no column " +
                sql::listed(missing));
  }
  auto const cannot = "table '" + table + "' cannot be adopted: ";
  if (auto const& id = have.at("event_id"); id.type != "varchar" && id.type != "char" && id.type != "text") {
    sql::refuse(cannot + "its event_id is of type " + id.full_type + ", not varchar");
  }
  std::vector<std::string> others;
  for (auto const& definition : definitions()) {
    auto const known = is_key(definition) ? have.end() : have.find(name_of(definition));
    if (known == have.end() || sql::is_adoptable(known->first)) continue;
    bool const generated = definition.find(" AS (") != std::string::npos;
    // What an interrupted call has made.
    if (known->second.type == type_of(definition) && known->second.generated == generated) continue;
    others.push_back(known->first);
  }
  if (!others.empty()) {
    sql::refuse(cannot + "it has columns with names of this library's that are not this library's (" +
                sql::listed(others) + "); use a table of another name, or rename them");
  }
  // Every statement finds its row by the id, so ids must be unique.
  auto const unique = c.any(
      "SELECT 1 FROM information_schema.statistics WHERE table_schema = ?1 AND table_name = ?2 AND non_unique = 0 "
      "GROUP "
      "BY index_name HAVING count(*) = 1 AND max(column_name) = 'event_id' AND max(sub_part) IS NULL",
      {std::string_view{database}, std::string_view{table}});
  if (!unique) sql::refuse(cannot + "its event_id is not unique; add a primary key or a unique index");
  std::vector<std::string> needed;
  for (auto const& [name, facts] : have) {
    if (name == "seq") continue;
    if (facts.automatic) {
      sql::refuse(cannot + "its column " + name + " is AUTO_INCREMENT, and a table can have only one; drop it first");
    }
    if (facts.needed && !sql::is_adoptable(name)) needed.push_back(name);
  }
  if (!needed.empty()) {
    sql::refuse(cannot + "it has columns without a default that this library would not fill (" + sql::listed(needed) +
                "); use a table of another name, or give them one");
  }
}

// The server commits after each change of the table, and keeps it locked.
void adopt(driver& d, options const& o, std::string const& database, server const& s, table_columns const& columns,
           migration& report) {
  auto const table = sql::with_table("outbox_event", o.table, database, '`');
  auto have = columns;
  if (s.mariadb) find_json(d, o, database, have);
  d.execute("SET SESSION time_zone = '+00:00'");  // a timestamp becomes a datetime by it
  bool const numbered = have.contains("seq") && have.at("seq").automatic;
  auto const keys = keys_of(d, o.table, database);
  bool const found = std::ranges::all_of(std::array{"_id", "_due", "_ended"}, [&](auto const* const suffix) {
    return std::ranges::find(keys, o.table + suffix) != keys.end();
  });
  if (numbered && found && have.contains("due_at") && have.contains("ended_at")) return;
  d.execute("LOCK TABLES " + table + " WRITE, " + table + " AS s WRITE");  // until the session ends, if a step fails
  add_and_change_columns(d, o, table, s, have, report);
  if (!numbered) number_rows(d, table);
  correct_rows(d, table, have);
  add_keys(d, o, database, table, have);
  d.execute("UNLOCK TABLES");
}

}  // namespace outbox::inline v0::mysql
