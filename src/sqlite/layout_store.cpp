#include "sqlite/layout_store.hpp"

#include <algorithm>
#include <optional>
#include <outbox/error.hpp>

#include "sql/layout_store.hpp"
#include "sqlite/caller_connection.hpp"
#include "sqlite/dispatch_lock.hpp"
#include "sqlite/driver.hpp"
#include "sqlite/fork_gate.hpp"
#include "sqlite/migrate.hpp"
#include "sqlite/own_connection.hpp"

namespace outbox::inline v0::sqlite {
namespace {

sql::layout_forms forms() {
  auto const as_it_is = [](std::string const& x) { return x; };
  return {.kind = "sqlite",
          .begin = "BEGIN IMMEDIATE",
          .integer = as_it_is,
          .bytes = [](std::string const& c) { return "length(CAST(" + c + " AS BLOB))"; },
          .text = as_it_is,
          .id = as_it_is,
          .ids = [](std::string const& p) { return "(SELECT value FROM json_each(" + p + "))"; },
          .aggregate = as_it_is,
          .from_now = as_it_is,
          .at = as_it_is,
          .time = as_it_is,
          .sortable = [](std::string const& c) { return "replace(" + c + ", 'T', ' ')"; },
          .compared = as_it_is,
          .finish = as_it_is};
}

// The clock of what the process remembers is that of the file, unless the layout has one.
table_layout layout_of(options const& o, std::shared_ptr<clock const> const& c) {
  auto l = *o.layout;
  if (!l.clock) l.clock = c;
  return l;
}

class sqlite_layout_store final : public sql::layout_store {
 public:
  sqlite_layout_store(std::string const& path, options o, std::shared_ptr<clock const> c)
      : layout_store{layout_of(o, c), forms(), o.layout->table + " in " + path},
        clock_{std::move(c)},
        exists_{"SELECT 1 FROM " + sql::quoted_table(layout(), '"') + " WHERE \"" + layout().id +
                "\" = ?1 AND ?2 IS NOT NULL"},
        writer_{path, o, *clock_},
        reader_{path, o, *clock_},
        file_{identity_of(writer_.db.get())} {
    if (!file_) throw error{errc::invalid_option, "a SQLite store needs a file, and '" + path + "' is not one"};
    if (identity_of(reader_.db.get()) != file_) {
      throw error::about(errc::store_failure, "connect", "returned a handle to another file than before");
    }
    naming_file(path, [&] { check_shape(); });
  }

  instant now() override { return clock_->now(); }

 protected:
  void with_writer(work const& f) override {
    std::lock_guard const lock{writer_.mutex};
    inside_sqlite const here;
    f(writer_.statements);
  }
  void with_reader(work const& f) override {
    std::lock_guard const lock{reader_.mutex};
    inside_sqlite const here;
    f(reader_.statements);
  }
  void with_caller(transaction_ref tx, work const& f) override {
    if (tx.kind() != "sqlite") throw error{errc::wrong_transaction, "a SQLite store needs a SQLite transaction"};
    bool const joined = tx.run<sql::connection>([&](sql::connection& on) {
      auto* const c = dynamic_cast<caller_connection*>(&on);
      if (c == nullptr) throw error{errc::wrong_transaction, "the transaction is not one that a SQLite store can join"};
      if (c->file() != file_) {
        throw error{errc::wrong_transaction, "the transaction is on another database file than the node's store"};
      }
      c->writes_to(exists_);
      c->use_clock(*clock_);
      f(*c);
    });
    if (!joined) throw error{errc::wrong_transaction, "the transaction gives its store nothing to work on"};
  }
  void send_insert(sql::connection& c, std::string const& sql, std::span<sql::value const> values,
                   std::size_t /*rows*/) override {
    c.execute(sql, values, {});
  }
  std::unique_ptr<spi::dispatch_lock> try_lock(std::string_view /*incarnation*/) override {
    auto table = layout().table;
    std::ranges::replace(table, '.', '-');
    auto const path = file_name(writer_.db.get()) + "-" + table + ".lock";
    return try_lock_file(path, [] { return std::size_t{0}; });  // the leases are in memory
  }

 private:
  std::shared_ptr<clock const> clock_;
  std::string exists_;
  own_connection writer_, reader_;
  std::optional<file_identity> file_;
};

}  // namespace

std::shared_ptr<store> open_layout(std::string const& path, options o) {
  sql::check_options_of_layout(*o.layout, o.table, o.done_rows);
  auto c = o.clock ? o.clock : machine_clock();
  return std::make_shared<sqlite_layout_store>(path, std::move(o), std::move(c));
}

}  // namespace outbox::inline v0::sqlite
