// Whether the indexes of the table are there, as this library creates them, and used.
#include "mysql/checks.hpp"
#include "mysql/migrate.hpp"
#include "mysql/rows.hpp"

namespace outbox::inline v0::mysql {
namespace {

using spi::check;

struct wanted_index {
  std::string_view suffix;
  std::string_view columns;
  bool unique;
};

constexpr wanted_index wanted[] = {
    {"_id", "event_id", true}, {"_due", "due_at, seq", false}, {"_ended", "status, ended_at, seq", false}};

std::string create(checked const& on, wanted_index const& w) {
  return "ALTER TABLE " + on.named("outbox_event") + " ADD " + (w.unique ? "UNIQUE INDEX `" : "INDEX `") + on.table +
         std::string{w.suffix} + "` (" + std::string{w.columns} + ");";
}

void add_line(std::string& text, std::string const& line) { text += (text.empty() ? "" : "\n") + line; }

void check_presence(checked const& on) {
  check const missing{on.found, "missing_index", "Statements name it, and fail without it."};
  check const differs{on.found, "index_definition", "With other columns, statements read more rows than they need."};
  std::string absent, absent_fix, changed, changed_fix;
  if (on.keyed() && !has_key_index(on.d, on.table, on.database)) {
    absent = on.table + std::string{key_index};
    absent_fix = key_schema(on.d, on.table, on.database, on.server);
  }
  for (auto const& w : wanted) {
    auto const name = on.table + std::string{w.suffix};
    auto const columns = on.d.ask<std::string>(
        "SELECT group_concat(column_name ORDER BY seq_in_index SEPARATOR ', ') FROM information_schema.statistics "
        "WHERE "
        "table_schema = ?1 AND table_name = ?2 AND index_name = ?3",
        {std::string_view{on.database}, std::string_view{on.table}, std::string_view{name}});
    if (!columns) {
      absent += (absent.empty() ? "" : ", ") + name;
      add_line(absent_fix, create(on, w));
    } else if (*columns != w.columns) {
      changed += (changed.empty() ? "" : ", ") + name + " (" + *columns + ")";
      add_line(changed_fix,
               "ALTER TABLE " + on.named("outbox_event") + " DROP INDEX `" + name + "`;\n" + create(on, w));
    }
  }
  if (absent.empty()) {
    missing.passed("The table has every index that this library creates.");
  } else {
    missing.problem("Missing indexes: " + absent + ".", absent_fix);
  }
  if (changed.empty()) return differs.passed("The indexes of the table have the columns that this library gives them.");
  differs.warning("Indexes with other columns than this library gives them: " + changed + ".", changed_fix);
}

void check_plan(checked const& on) {
  check const here{on.found, "claim_plan", "A claim that does not use its index reads the whole table."};
  here.attempt(
      [&] {
        auto const index = on.table + "_due";
        auto text = on.d.text();
        text << "EXPLAIN ";
        add_look(text, on.sets, {.token = "doctor", .limit = 50}, 51);
        // A session that only reads may not even explain a statement that locks.
        if (auto const lock = text.str().rfind(" FOR UPDATE"); lock != std::string::npos) text.shrink_to(lock);
        bool used = false;
        for (auto const& a : on.d.send(text)) {
          if (!a.rows) continue;
          auto const fields = static_cast<int>(mysql_num_fields(a.rows.get()));
          show(a.rows.get(), [&](sql::row const& r) {
            for (int i = 0; i < fields; ++i) used = used || r.text(i) == index;
            return true;
          });
        }
        if (used) return here.passed("A claim uses the index " + index + ".");
        here.warning("A claim does not use the index " + index + ".",
                     "ANALYZE TABLE " + on.named("outbox_event") + ";");
      },
      create(on, wanted[1]));
}

}  // namespace

void check_indexes(checked const& on) {
  check_presence(on);
  check_plan(on);
}

}  // namespace outbox::inline v0::mysql
