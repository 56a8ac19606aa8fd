// Reads and changes the rows that stand in line, for the order of keys.
#pragma once

#include <cstdint>
#include <outbox/spi/store.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mysql/driver.hpp"
#include "mysql/key_statements.hpp"
#include "mysql/packets.hpp"
#include "mysql/rows.hpp"
#include "sql/set_store.hpp"

namespace outbox::inline v0::mysql {

/// A row whose place is asked for.
struct asked_row {
  std::string key;
  std::int64_t seq;
};

/// What stands beside a row in line.
struct neighbours {
  bool in_line = false;
  std::int64_t before = 0;  ///< The number of the row before it; 0 if there is none.
  std::string before_id{};
  bool before_is_delayed = false;  ///< Another program wrote that row with a delay.
  bool next_blocked = false;       ///< Known if all rows before it were asked for too.
};

/// Use from one thread at a time. The driver and the statements must outlive it.
class key_order {
 public:
  /// `packet`: the largest text that may be sent. `blocks`: the server is a MariaDB that may be told so.
  key_order(driver& d, key_statements const& statements, set_statements const& sets, std::size_t packet,
            bool blocks) noexcept
      : d_{d}, s_{statements}, sets_{sets}, packet_{packet}, blocks_{blocks} {}

  /// One entry for each row, in order. Nearly always one round trip.
  [[nodiscard]] std::vector<neighbours> beside(std::span<asked_row const> rows) const;

  /// Shows the candidates of a keyed look to the claim.
  void show_look(MYSQL_RES* rows, instant now, sql::row_chooser& choose) const;

  /// In the transaction of the look: locks and shows what is behind `choose.heads()`.
  void show_runs(sql::row_chooser& choose) const;

  /// As `set_store` asks for it. In a transaction of its own.
  [[nodiscard]] std::size_t note(std::span<std::string const> ids) const;

  /// Adds the statements that unblock what is behind rows which have left the line. The last of them changes the rows.
  enum class behind {
    lowest,         ///< Of each key. All of the rows have left.
    each_that_left  ///< Others may stand between them, and some of them may be in line.
  };
  void add_unblock(packets& p, sql::left_rows const& left, behind which) const;

  /// These too are as `set_store` asks for them.
  std::size_t let_leave(std::span<std::string const> ids, sql::dialect const& dialect) const;
  void show_places(std::span<std::string const> ids, std::vector<spi::place>& places) const;
  [[nodiscard]] std::size_t heal(std::string& after, std::size_t keys) const;
  [[nodiscard]] bool clear_notes(sql::line_position& after, std::size_t limit) const;

 private:
  void end_transaction() const noexcept;

  driver& d_;
  key_statements const& s_;
  set_statements const& sets_;
  std::size_t packet_;
  bool blocks_;
};

}  // namespace outbox::inline v0::mysql
