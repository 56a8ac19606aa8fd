#include "sqlite/foreign_rows.hpp"

#include <optional>
#include <outbox/error.hpp>

#include "sql/instant_text.hpp"

namespace outbox::inline v0::sqlite {
namespace {

// The number of rows that one claim corrects: writers wait meanwhile.
constexpr std::int64_t most_at_once = 1000;

struct found_row {
  std::int64_t seq = 0;
  spi::dead_row row{};
  std::optional<instant> due{};  ///< Nothing if the row cannot be read; `row.why` says why.
  bool leaves_line = false;      ///< If it cannot be read: the rows of its key do not wait for it any more.
};

// A text for an error message: short and printable, whatever the bytes are.
std::string shown(std::string_view text) {
  constexpr std::size_t longest = 40;
  std::string s{text.substr(0, longest)};
  for (char& c : s) {
    if (c < ' ' || c > '~') c = '?';
  }
  return s + (text.size() > longest ? "..." : "");
}

found_row read(sql::row const& r) {
  found_row f{.seq = r.integer(0), .row = {.id = std::string{r.text(2)}, .type = std::string{r.text(3)}}};
  bool const has_text_id = r.integer(1) != 0;
  if (has_text_id) f.due = r.time(4);
  if (!has_text_id) {
    f.row.id = shown(f.row.id);
    f.row.why = "the row cannot be read: its event_id is a BLOB, it must be text";
    f.leaves_line = true;
  } else if (!f.due) {
    f.row.why = "the row cannot be read: its available_at '" + shown(r.text(4)) + "' is not an instant";
  }
  return f;
}

}  // namespace

foreign_rows::foreign_rows(std::string const& table) : statements_{foreign_statements({.table = table})} {}

bool foreign_rows::any(sql::connection& c) const { return c.any(statements_.find, {std::int64_t{1}}); }

foreign_rows::mended foreign_rows::mend(sql::connection& c) const {
  // Reads all before it changes any: a change moves the row within the index that is being read.
  std::vector<found_row> rows;
  c.execute(statements_.find, {most_at_once}, [&](sql::row const& r) {
    rows.push_back(read(r));
    return true;
  });
  mended result;
  bool changed = false;
  for (auto& f : rows) {
    try {
      if (f.due) {
        c.execute(statements_.mend, {*f.due, f.seq});
      } else {
        c.execute(statements_.make_dead, {sql::from_now{}, std::string_view{f.row.why}, f.seq});
        if (f.leaves_line) c.execute(statements_.unblock_next, {sql::from_now{}, f.seq});
        result.dead.push_back(std::move(f.row));
      }
      changed = true;
    } catch (error const& e) {
      // A trigger refuses the change of this row: only this one waits.
      if (e.transient() || !c.in_transaction()) throw;
      result.refused.push_back({std::move(f.row.id), std::move(f.row.type), e.what()});
    }
  }
  result.more = changed && std::ssize(rows) == most_at_once;
  return result;
}

}  // namespace outbox::inline v0::sqlite
