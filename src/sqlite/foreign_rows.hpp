// Rows of other programs, put into the form that a claim can compare and settle.
//
// Instants are compared as text, so an instant with an offset would be due hours too early or too late, and one with a
// Z up to a second. An id that is a BLOB equals no text, so its row could never be settled.
#pragma once

#include <outbox/spi/sql_connection.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <vector>

#include "sqlite/statements.hpp"

namespace outbox::inline v0::sqlite {

class foreign_rows {
 public:
  explicit foreign_rows(std::string const& table);

  /// True if there are any. Reads one empty index otherwise.
  [[nodiscard]] bool any(sql::connection& c) const;

  struct mended {
    std::vector<spi::killed_row> killed{};  ///< What cannot be read is DEAD.
    bool more = false;                      ///< There may be others.
  };

  /// Puts some of them in form. Within a transaction.
  [[nodiscard]] mended mend(sql::connection& c) const;

 private:
  foreign_row_statements statements_;
};

}  // namespace outbox::inline v0::sqlite
