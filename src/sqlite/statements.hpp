// The statements of the SQLite store, made from a layout.
#pragma once

#include <outbox/detail/sqlite_export.hpp>
#include <string>

#include "sql/dialect.hpp"
#include "sql/layout.hpp"
#include "sql/row_store.hpp"

namespace outbox::inline v0::sqlite {

/// How the store corrects rows of other programs. All in one transaction.
struct foreign_row_statements {
  std::string find;          ///< limit -> seq, is the id text?, the id or its literal, event_type, available_at
  std::string mend;          ///< available_at, seq
  std::string make_dead;     ///< now, error, seq. A row whose id is not text leaves the line of its key.
  std::string unblock_next;  ///< now, seq of a row: unblocks the row behind it in its line
};

[[nodiscard]] OUTBOX_SQLITE_EXPORT sql::dialect shared_statements(sql::layout const& table);
[[nodiscard]] OUTBOX_SQLITE_EXPORT sql::row_statements row_statements(sql::layout const& table);
[[nodiscard]] OUTBOX_SQLITE_EXPORT foreign_row_statements foreign_statements(sql::layout const& table);

}  // namespace outbox::inline v0::sqlite
