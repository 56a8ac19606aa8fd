// The transaction on MariaDB and MySQL, and how `write()` joins it or a bare handle.
#include <algorithm>
#include <outbox/error.hpp>
#include <outbox/mysql.hpp>
#include <outbox/spi/enlisted.hpp>
#include <set>
#include <utility>

#include "mysql/caller_connection.hpp"
#include "mysql/execute.hpp"
#include "mysql/session.hpp"
#include "sql/table_name.hpp"

namespace outbox::inline v0 {
namespace mysql {
namespace {

constexpr std::string_view begin_sql = "START TRANSACTION";
constexpr std::string_view rollback_sql = "ROLLBACK AND NO CHAIN NO RELEASE";

// Whatever the session's completion_type says.
constexpr std::string_view commit_sql = "COMMIT AND NO CHAIN NO RELEASE";

std::string hexadecimal(std::string_view text) {
  static constexpr char capitals[] = "0123456789ABCDEF";
  std::string out;
  for (char const c : text) {
    out += capitals[static_cast<unsigned char>(c) >> 4U];
    out += capitals[static_cast<unsigned char>(c) & 15U];
  }
  return out;
}

// COMMIT has not happened if it failed for one of these: the transaction was in conflict, or the server only reads.
bool has_not_committed(unsigned number) noexcept {
  static constexpr unsigned numbers[] = {code::deadlock, code::lock_wait_timeout, 1047, 1290, 1792, 1836};
  return std::ranges::find(numbers, number) != std::end(numbers);
}

// For what comes after the commit. Only memory can be missing there, and the transaction is committed nevertheless.
template <class F>
bool succeeds(F&& f) noexcept {
  try {
    std::forward<F>(f)();
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

// The store sees it as the connection of the caller.
struct transaction::state final : caller_connection {
  explicit state(MYSQL* c) : caller_connection{borrowed}, borrowed{c}, on{&borrowed} {}
  explicit state(session& s) : caller_connection{s.statements}, borrowed{s.conn.get()}, on{&s.statements} {}

  [[nodiscard]] MYSQL* raw() const noexcept { return on->raw(); }

  // Begun by this object, so it does not matter whether autocommit is off.
  [[nodiscard]] bool in_transaction() const noexcept override { return has_begun(raw()); }

  void begin() {
    on->learn_status();
    if (in_transaction())
      throw error{errc::no_transaction, "the connection is in a transaction already: pass its handle to write()"};
    on->execute(begin_sql);
  }

  // The server rolls back the whole transaction when it meets a deadlock, and its answer does not say that.
  [[nodiscard]] bool active() const noexcept {
    return !over && in_transaction() && mysql_errno(raw()) != code::deadlock;
  }

  void check_open(std::string_view call) {
    if (!over) on->learn_status();
    if (!active()) throw error{errc::no_transaction, std::string{call} + " after the end of the transaction"};
  }

  // Runs what may end the transaction by an error. If the connection is lost, its end is not known yet.
  template <class F>
  decltype(auto) guarded(F&& f) {
    try {
      return std::forward<F>(f)();
    } catch (error const&) {
      if (!over && was_rolled_back()) end(&spi::enlisted::rolled_back);
      throw;
    }
  }

  [[nodiscard]] bool was_rolled_back() noexcept {
    try {
      on->learn_status();
      return !in_transaction();
    } catch (...) {
      return false;
    }
  }

  void mark(std::string_view what, std::string_view name) {
    sql::check_table_name(name, "name");
    // The server does not tell capitals from small letters here.
    auto const lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    if (std::ranges::equal(name, std::string_view{"outbox_write"}, {}, lower)) {
      throw error::about(errc::invalid_option, "name", "belongs to this library");
    }
    check_open("a savepoint");
    guarded([&] { on->execute(std::string{what} + "`" + std::string{name} + "`"); });
  }

  void insert(sql_text const& statement) override {
    guarded([&] { caller_connection::insert(statement); });
  }

  void writes_to(event_table const& table, bool may_send_blocks) override {
    blocks = blocks && may_send_blocks && mariadb_connection(raw()) != 0;
    auto const known = std::ranges::find(tables, table);
    auto const number = static_cast<std::size_t>(known - tables.begin());
    if (known == tables.end()) tables.push_back(table);
    writes.writes_to(number);
  }

  // The rows of one table that the node waits for. Rolling back to a savepoint removes rows, and only id and token tell
  // which.
  struct expected_rows {
    std::size_t table = 0;
    std::vector<std::string_view> ids{};
    std::vector<std::string_view> tokens{};  ///< Each once: mostly there is one.
  };

  [[nodiscard]] std::vector<expected_rows> expected() const {
    std::vector<expected_rows> all;
    writes.for_each_row([&](spi::enlisted::row const& r) {
      if (r.table == spi::enlisted::no_table) return;
      auto of = std::ranges::find(all, r.table, &expected_rows::table);
      if (of == all.end()) of = all.insert(all.end(), {.table = r.table});
      of->ids.push_back(r.event_id);
      if (std::ranges::find(of->tokens, r.token) == of->tokens.end()) of->tokens.push_back(r.token);
    });
    return all;
  }

  // Which of the rows are there. In hexadecimal, whatever character set the session wants its results in, and with a
  // limit, whatever its sql_select_limit is.
  void add_question(sql_text& t, expected_rows const& rows) const {
    auto const& of = tables[rows.table];
    t << "SELECT hex(" << of.event_id << "), hex(coalesce(" << of.locked_by << ", '')) FROM " << of.name << " WHERE "
      << of.event_id << " IN ";
    t.list(rows.ids, [&](std::string_view id) { t.text(id); });
    t << " LIMIT 1000000000";
  }

  // Ends a block unless all of the rows are there; it ends also if an id was written twice. SELECT … INTO reads without
  // locks. A SELECT inside of IF would lock what it reads, and wait for nodes.
  void add_check(sql_text& t, expected_rows const& rows) const {
    auto const& of = tables[rows.table];
    t << "SELECT count(*) INTO outbox_found FROM " << of.name << " WHERE " << of.event_id << " IN ";
    t.list(rows.ids, [&](std::string_view id) { t.text(id); });
    t << " AND " << of.locked_by << " IN ";
    t.list(rows.tokens, [&](std::string_view token) { t.text(token); });
    (t << "; IF outbox_found <> ").number(static_cast<std::int64_t>(rows.ids.size()));
    t << " THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a savepoint took back events'; END IF; ";
  }

  void confirm(std::span<expected_rows const> asked, std::span<driver::answer const> answers) {
    std::vector<std::set<std::pair<std::string, std::string>>> found(tables.size());
    for (std::size_t i = 0; i < asked.size(); ++i) {
      show(answers[i].rows.get(), [&](sql::row const& r) {
        found[asked[i].table].emplace(r.text(0), r.text(1));
        return true;
      });
    }
    writes.confirm([&](spi::enlisted::row const& r) {
      return r.table != spi::enlisted::no_table &&
             found[r.table].contains({hexadecimal(r.event_id), hexadecimal(r.token)});
    });
  }

  // MariaDB takes a block of statements as one, and answers once. Returns false if nothing has happened: a row is
  // absent, or the session does not take the block.
  [[nodiscard]] bool commit_if_all_are_there(std::span<expected_rows const> rows) {
    auto t = on->text();
    t << "BEGIN NOT ATOMIC DECLARE outbox_found bigint; ";
    for (auto const& one : rows) add_check(t, one);
    t << commit_sql << "; END";
    try {
      on->send(t);
      return true;
    } catch (error const& e) {
      if (e.transient() || e.code() == errc::connection_busy || was_rolled_back()) throw;
      return false;
    }
  }

  // In one text, for a session that may send several statements. Returns false if it is unknown which rows are there.
  [[nodiscard]] bool ask_and_commit_at_once(std::span<expected_rows const> asked) {
    auto t = on->text();
    for (auto const& one : asked) {
      add_question(t, one);
      t << ";";
    }
    auto const answers = on->send(t << commit_sql);
    return succeeds([&] { confirm(asked, answers); });
  }

  void ask(std::span<expected_rows const> asked) {
    std::vector<driver::answer> answers;
    answers.reserve(asked.size());
    for (auto const& one : asked) {
      auto t = on->text();
      add_question(t, one);
      answers.push_back(std::move(on->send(t).front()));
    }
    confirm(asked, answers);
  }

  // All rows are there, except those of a write that did not get as far as its table.
  void confirm_all() {
    writes.confirm([](spi::enlisted::row const& r) { return r.table != spi::enlisted::no_table; });
  }

  // Returns false if it is unknown which rows are there.
  [[nodiscard]] bool confirm_and_commit() {
    auto const rows = expected();
    if (!rows.empty() && !blocks && may_send_several(raw())) return ask_and_commit_at_once(rows);
    if (rows.empty() || (blocks && commit_if_all_are_there(rows))) {
      if (rows.empty()) on->execute(commit_sql);
      return succeeds([&] { confirm_all(); });
    }
    ask(rows);
    on->execute(commit_sql);
    return true;
  }

  void commit() {
    if (over) throw error{errc::no_transaction, "commit() after the end of the transaction"};
    if (mysql_errno(raw()) != 0 && !loses_connection(mysql_errno(raw())) && was_rolled_back()) {
      end(&spi::enlisted::rolled_back);
      throw error{errc::no_transaction, "the server has rolled back the transaction, because of an error before"};
    }
    if (!in_transaction()) {
      end(&spi::enlisted::in_doubt);
      throw error{errc::no_transaction,
                  "SQL on the handle has ended the transaction before commit() was called; whether it was committed is "
                  "not known here"};
    }
    bool confirmed = true;
    try {
      confirmed = confirm_and_commit();
    } catch (error const& e) {
      failed_to_commit(e);
    } catch (...) {
      end(&spi::enlisted::in_doubt);
      throw;
    }
    end(confirmed ? &spi::enlisted::committed : &spi::enlisted::committed_in_part);
  }

  // If the transaction is still open, a question was refused and COMMIT was not reached. Returns if a COMMIT without
  // the questions has succeeded.
  void failed_to_commit(error const& e) {
    if (e.code() == errc::connection_busy) throw;
    auto const number = mysql_errno(raw());
    if (loses_connection(number) || was_rolled_back()) give_up(e, number);
    if (e.transient()) {  // it was interrupted, and not for what it asks
      roll_back();
      throw error{e};
    }
    for (std::size_t i = 0; i < tables.size(); ++i) writes.doubt_table(i);
    tables.clear();
    try {
      on->execute(commit_sql);
    } catch (error const& again) {
      give_up(again, mysql_errno(raw()));
    }
  }

  [[noreturn]] void give_up(error const& e, unsigned number) {
    if (has_not_committed(number)) {
      roll_back();
      throw error{e};
    }
    end(&spi::enlisted::in_doubt);
    throw error{errc::commit_in_doubt, e.what(), std::string{e.sqlstate()}};
  }

  void roll_back() noexcept {
    try {
      on->execute(rollback_sql);
    } catch (error const&) {  // NOLINT(bugprone-empty-catch): the server rolls back at the latest when the session ends
    }
    end(&spi::enlisted::rolled_back);
  }

  // Ready before the observers are told: one of them may begin another transaction on the connection.
  void end(void (spi::enlisted::*how)() noexcept) noexcept {
    over = true;
    (writes.*how)();
  }

  driver borrowed;
  driver* on;
  bool over = false;                ///< The observers were told.
  bool blocks = true;               ///< MariaDB may be sent a block of statements.
  std::vector<event_table> tables;  ///< Those that were written.
  spi::enlisted writes;
};

transaction::transaction(st_mysql* c) : state_{std::make_unique<state>(c)} {
  if (c == nullptr) throw error{errc::no_transaction, "a transaction cannot begin on a null handle"};
  state_->begin();
}
transaction::transaction(connection& c) : state_{std::make_unique<state>(*c.session_)} { state_->begin(); }

transaction::~transaction() { rollback(); }

bool transaction::active() const noexcept { return state_->active(); }

st_mysql* transaction::handle() const noexcept { return state_->raw(); }

sql::result transaction::run_statement(std::string_view sql, std::span<sql::argument const> args) {
  state_->check_open("execute() or query()");
  return state_->guarded([&] { return execute_on(handle(), sql, args); });
}

void transaction::savepoint(std::string_view name) { state_->mark("SAVEPOINT ", name); }
void transaction::rollback_to(std::string_view name) { state_->mark("ROLLBACK TO SAVEPOINT ", name); }
void transaction::release_savepoint(std::string_view name) { state_->mark("RELEASE SAVEPOINT ", name); }

void transaction::commit() { state_->commit(); }

void transaction::rollback() noexcept {
  if (state_->over) return;
  if (!state_->in_transaction()) return state_->end(&spi::enlisted::in_doubt);
  state_->roll_back();
}

struct transaction_access {
  static transaction::state& state(void* tx) noexcept { return *static_cast<transaction*>(tx)->state_; }
};

}  // namespace mysql

transaction_ref transaction_traits<mysql::transaction>::join(mysql::transaction& tx) noexcept {
  static constexpr transaction_operations operations{
      .kind = "mysql",
      .active = [](void const* t) noexcept { return static_cast<mysql::transaction const*>(t)->active(); },
      .enlist =
          [](void* t, std::shared_ptr<transaction_observer> observer) {
            mysql::transaction_access::state(t).writes.enlist(std::move(observer));
            return true;
          },
      .run =
          [](void* t, void (*use)(void*, void*), void* what) {
            sql::connection& on = mysql::transaction_access::state(t);
            use(what, &on);
          }};
  return {&tx, operations};
}

transaction_ref transaction_traits<st_mysql*>::join(st_mysql* connection) noexcept {
  static constexpr transaction_operations operations{
      .kind = "mysql",
      .active =
          [](void const* t) noexcept {
            auto const* const c = static_cast<st_mysql const*>(t);
            // After a deadlock the server has rolled back, and only the error tells.
            return mysql::in_transaction(c) && mysql_errno(const_cast<st_mysql*>(c)) != mysql::code::deadlock;
          },
      .enlist = [](void*, std::shared_ptr<transaction_observer>) { return false; },
      .run =
          [](void* t, void (*use)(void*, void*), void* what) {
            mysql::driver d{static_cast<st_mysql*>(t)};
            mysql::caller_connection c{d};
            sql::connection& on = c;
            use(what, &on);
          }};
  return {connection, operations};
}

}  // namespace outbox::inline v0
