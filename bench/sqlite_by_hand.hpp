// What one would write without this library: the same table, prepared statements, nothing else.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

struct close_database {
  void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
};
struct finalize {
  void operator()(sqlite3_stmt* s) const noexcept { sqlite3_finalize(s); }
};
using statement = std::unique_ptr<sqlite3_stmt, finalize>;

/// A connection with the same settings as the library's own.
class database {
 public:
  explicit database(std::string const& path, bool full = true);

  [[nodiscard]] sqlite3* handle() const noexcept { return db_.get(); }
  [[nodiscard]] statement prepare(std::string const& sql) const;
  void run(std::string const& sql) const;
  void step(statement const& s) const;  ///< Runs it to its end and resets it.
  [[nodiscard]] std::int64_t number(std::string const& sql) const;

 private:
  std::unique_ptr<sqlite3, close_database> db_;
};

void put(statement const& s, int index, std::string_view text);
void put(statement const& s, int index, std::int64_t number);

/// "YYYY-MM-DD HH:MM:SS.ffffff" of now.
[[nodiscard]] std::string now_text();

/// Business row and event in one transaction.
class writer_by_hand {
 public:
  writer_by_hand(std::string const& path, bool full = true);
  void write(std::string_view id, std::string_view payload);
  void write_all(std::vector<std::string> const& ids, std::string_view payload);
  void insert_event(std::string_view id, std::string_view payload);
  [[nodiscard]] database const& db() const noexcept { return db_; }

 private:
  database db_;
  statement begin_, commit_, order_, event_;
};

/// Claims and marks (or deletes) in batches, as a careful service does it: one transaction to lock, one to mark.
class drainer_by_hand {
 public:
  explicit drainer_by_hand(std::string const& path, bool erase = false);
  /// Returns the number of rows; `listener` sees each.
  std::size_t drain_some(std::size_t limit);

 private:
  database db_;
  bool erase_;
  statement begin_, commit_, due_, lock_, mark_;
  std::uint64_t seen_ = 0;
};

/// Makes the business table and ours.
void create_tables(std::string const& path);

}  // namespace bench
