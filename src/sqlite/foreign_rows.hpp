// Brings rows of other programs into the form that a claim can compare and settle.
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

  /// True if there are such rows. Otherwise it reads an empty index.
  [[nodiscard]] bool any(sql::connection& c) const;

  struct mended {
    std::vector<spi::dead_row> dead{};        ///< Rows that cannot be read: they are DEAD now.
    std::vector<spi::refused_row> refused{};  ///< Rows that a trigger does not let be changed: they wait.
    bool more = false;                        ///< There may be more such rows.
  };

  /// Corrects some of them. Must be called within a transaction.
  [[nodiscard]] mended mend(sql::connection& c) const;

 private:
  foreign_row_statements statements_;
};

}  // namespace outbox::inline v0::sqlite
