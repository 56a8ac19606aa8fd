#include <array>
#include <atomic>
#include <outbox/error.hpp>
#include <outbox/mysql.hpp>
#include <outbox/spi/claim_filter.hpp>

#include "core/base/log_book.hpp"
#include "core/base/pool.hpp"
#include "mysql/connector.hpp"
#include "mysql/dispatch_lock.hpp"
#include "mysql/driver.hpp"
#include "mysql/findings.hpp"
#include "mysql/keys.hpp"
#include "mysql/layout_store.hpp"
#include "mysql/migrate.hpp"
#include "mysql/own_connection.hpp"
#include "mysql/packets.hpp"
#include "mysql/reach.hpp"
#include "mysql/rows.hpp"
#include "mysql/server.hpp"
#include "mysql/statements.hpp"
#include "sql/set_store.hpp"
#include "sql/table_name.hpp"

namespace outbox::inline v0::mysql {
namespace {

constexpr std::string_view no_lock_reason =
    "locks by name hold on one server only, and this one is part of a cluster in which others take writes too";

// Texts are sent in pieces of at most this size, so that neither side keeps them in memory several times.
constexpr std::size_t most_bytes = 4U << 20U;

// And so many rows.
constexpr std::size_t most_rows = 1000;

// What the id and the token of a row take at most, in quotes, in two statements.
constexpr std::size_t most_row_bytes = 1024;

// Nothing tells a node what other processes have written.
constexpr milliseconds poll_every{500};

class mysql_store final : public sql::set_store {
 public:
  mysql_store(connector how, options const& o, table_identity to, server s, std::string lock, bool has_key_index)
      : set_store{shared_statements(layout_of(to), s.collation)},
        sets_{statements_for_sets(layout_of(to), o.done_rows, s.collation, s.mariadb && o.flavour != flavour::mysql)},
        keys_{statements_for_keys(layout_of(to), s.collation, false),
              statements_for_keys(layout_of(to), s.collation, true)},
        key_index_{has_key_index},
        events_{sets_.table, sets_.event_id, sets_.locked_by},
        done_{o.done_rows},
        connector_{std::move(how)},
        timeout_{o.timeout},
        identity_{std::move(to)},
        full_name_{identity_.database + "." + identity_.table},
        server_{std::move(s)},
        blocks_{o.flavour != flavour::mysql},
        may_migrate_{o.migrate},
        log_{o.log},
        packet_{std::min(most_bytes, server_.max_packet - std::min(server_.max_packet, packet_overhead))},
        lock_name_{std::move(lock)},
        pool_{[this] { return std::make_unique<own_connection>(connector_.open(timeout_)); }, o.connections, timeout_} {
  }

  store_capabilities capabilities() const noexcept override {
    return {.kind = "mysql",
            .keeps_done_rows = done_ == done_rows::keep,
            .table = full_name_,
            .dispatch_lock = server_.clustered ? lock_kind::none : lock_kind::session,
            .no_lock_reason = server_.clustered ? no_lock_reason : std::string_view{},
            .event_filters = true,
            .audit = true,
            .event_types = true,
            .keys = true,
            .findings = true,
            .overview = true,
            .waiting_types = true,
            .poll_every = poll_every};
  }

  using set_store::insert;
  void insert(transaction_ref tx, std::span<spi::insertion const> rows,
              std::shared_ptr<spi::insert_receipt> const& receipt) override;

  std::vector<spi::finding> findings(spi::finding_limits const& limits) override {
    std::vector<spi::finding> found;
    with_reader([&](sql::connection& c) {
      found.clear();
      make_checks({own(c), identity_.table, identity_.database, server_, statements(), sets_, limits, found});
    });
    return found;
  }

  std::unique_ptr<spi::dispatch_lock> try_dispatch_lock(std::string_view incarnation, milliseconds /*lease*/) override {
    if (server_.clustered) {
      throw error{errc::unsupported, "there is no dispatch lock: " + std::string{no_lock_reason}};
    }
    return try_named_lock(connector_, timeout_, lock_name_, incarnation, statements().expire_others);
  }

  instant now() override {
    instant at{};
    with_reader([&](sql::connection& c) { at = c.ask<instant>("SELECT utc_timestamp(6)").value_or(instant{}); });
    return at;
  }

  spi::subscription on_change(std::function<void()> /*callback*/) override { return {}; }
  void hint() noexcept override {}
  spi::subscription on_wait(std::function<void(std::chrono::nanoseconds)> callback) override {
    return pool_.on_wait(std::move(callback));
  }

 protected:
  void with_connection(work const& f) override {
    pool_.with([&](own_connection& c) { f(c.statements); });
  }
  void with_caller(transaction_ref tx, work const& f) override;

  // Nothing is told: an INSERT with a SELECT in it locks what it reads, and a plain read of the caller's transaction
  // may be old. The node asks `places` after COMMIT.
  void send_insert(sql::connection& c, sql::stored_event const& e, std::shared_ptr<spi::insert_receipt> const& receipt,
                   std::size_t at) override;
  void send_insert(sql::connection& c, std::span<spi::insertion const> rows,
                   std::shared_ptr<spi::insert_receipt> const& receipt, std::size_t at) override;
  void send_look(sql::connection& c, spi::claim_request const& request, std::size_t window,
                 sql::row_chooser& choose) override;
  void send_run(sql::connection& c, sql::row_chooser& choose) override { order(c).show_runs(choose); }
  std::optional<error> send_take(sql::connection& c, spi::claim_request const& request, sql::chosen_rows const& chosen,
                                 spi::claim_reply& reply, sql::row_function const& on_row) override;
  std::size_t send_note(sql::connection& c, std::span<std::string const> ids) override { return order(c).note(ids); }
  std::size_t send_leave(sql::connection& c, std::span<std::string const> ids) override {
    return order(c).let_leave(ids, statements());
  }
  void send_places(sql::connection& c, std::span<std::string const> ids, std::vector<spi::place>& places) override {
    order(c).show_places(ids, places);
  }
  std::size_t send_heal(sql::connection& c, std::string& after, std::size_t keys) override {
    return order(c).heal(after, keys);
  }
  bool send_clear_notes(sql::connection& c, sql::line_position& after, std::size_t limit) override {
    return order(c).clear_notes(after, limit);
  }
  void prepare_for_keys() override;
  bool has_key_index() const noexcept override { return key_index_; }
  void send_settle(sql::connection& c, std::span<sql::settle_group const> groups, sql::left_rows const& left,
                   spi::settle_reply& reply) override;
  void send_renew(sql::connection& c, std::span<sql::optional_text const> ids,
                  std::span<sql::optional_text const> tokens, milliseconds lease,
                  sql::row_function const& on_row) override;
  std::size_t send_release(sql::connection& c, std::span<owner_token const> tokens, milliseconds lease) override;

 private:
  static sql::layout layout_of(table_identity const& to) {
    return {.table = to.table, .schema = to.database, .quote = '`'};
  }

  // Connections of the pool are drivers, those of callers are not.
  static driver& own(sql::connection& c) noexcept { return static_cast<driver&>(c); }
  static caller_connection& callers(sql::connection& c) noexcept { return static_cast<caller_connection&>(c); }

  [[nodiscard]] key_order order(sql::connection& c) const noexcept {
    return {own(c), keys_.at(key_index_ ? 1 : 0), sets_, packet_, blocks_ && server_.mariadb};
  }

  void take_back(caller_connection& caller);
  void settle_with_a_look(driver& d, std::span<sql::settle_group const> groups, sql::left_rows const& left,
                          spi::settle_reply& reply) const;

  set_statements sets_;
  std::array<key_statements, 2> const keys_;  ///< Without the index for keys, and with it.
  std::atomic<bool> key_index_;               ///< The table has it.
  event_table const events_;
  done_rows const done_;
  connector const connector_;
  milliseconds const timeout_;
  table_identity identity_;
  std::string full_name_;
  server const server_;
  bool const blocks_;  ///< Statements that only MariaDB knows are allowed.
  bool const may_migrate_;
  log_function const log_;
  std::size_t const packet_;  ///< The largest text that is sent on the store's own sessions.
  std::string const lock_name_;
  core::pool<own_connection> pool_;
};

void mysql_store::with_caller(transaction_ref tx, work const& f) {
  if (tx.kind() != "mysql") {
    throw error{errc::wrong_transaction, "a store on MariaDB or MySQL needs a transaction on one"};
  }
  bool const joined = tx.run<sql::connection>([&](sql::connection& on) {
    auto* const c = dynamic_cast<caller_connection*>(&on);
    if (c == nullptr) {
      throw error{errc::wrong_transaction, "the transaction is not one that stores on MariaDB and MySQL can join"};
    }
    c->limit_packets(check_reaches(*c, identity_));
    c->writes_to(events_, blocks_);
    f(*c);
  });
  if (!joined) throw error{errc::wrong_transaction, "the transaction gives its store nothing to work on"};
}

void mysql_store::send_insert(sql::connection& c, sql::stored_event const& e,
                              std::shared_ptr<spi::insert_receipt> const& /*receipt*/, std::size_t /*at*/) {
  auto& caller = callers(c);
  auto t = caller.line().text();
  add_insert(t, sets_, e, caller.needs_guard());
  check_size(t, caller.packet());
  caller.insert(t);
}

// Undoes the pieces that were sent, unless the error has undone the whole transaction.
void mysql_store::take_back(caller_connection& caller) {
  try {
    caller.line().learn_status();
    if (caller.in_transaction()) caller.execute(statements().rollback_to);
  } catch (error const&) {  // NOLINT(bugprone-empty-catch): the first error is the one that counts
  }
}

// All rows together, however many: send_insert() divides them.
void mysql_store::insert(transaction_ref tx, std::span<spi::insertion const> rows,
                         std::shared_ptr<spi::insert_receipt> const& receipt) {
  with_caller(tx, [&](sql::connection& c) {
    auto const before = receipt ? receipt->rows.size() : 0;
    if (receipt) receipt->rows.resize(before + rows.size(), {.known = false});
    if (rows.size() == 1) send_insert(c, sql::stored_event{rows.front()}, receipt, before);
    if (rows.size() > 1) send_insert(c, rows, receipt, before);
  });
}

// A statement that fails leaves those before it: a savepoint makes them one.
void mysql_store::send_insert(sql::connection& c, std::span<spi::insertion const> rows,
                              std::shared_ptr<spi::insert_receipt> const& /*receipt*/, std::size_t /*at*/) {
  auto& caller = callers(c);
  auto const packet = caller.packet();
  auto const most = packet == 0 ? most_bytes : std::min(most_bytes, packet - std::min(packet, packet_overhead));
  auto const next_piece = [&] {
    auto t = caller.line().text();
    auto const some = rows.first(std::min(rows.size(), most_rows));
    rows = rows.subspan(add_insert(t, sets_, some, most, caller.needs_guard()));
    check_size(t, packet);
    return t;
  };
  auto const first = next_piece();
  if (rows.empty()) return caller.insert(first);
  caller.execute(statements().savepoint);
  try {
    caller.insert(first);
    while (!rows.empty()) caller.insert(next_piece());
  } catch (...) {
    take_back(caller);
    throw;
  }
  caller.execute(statements().release_savepoint);
}

// One round trip, and another one if rows of it stand in line.
void mysql_store::send_look(sql::connection& c, spi::claim_request const& request, std::size_t window,
                            sql::row_chooser& choose) {
  auto& d = own(c);
  auto t = d.text();
  if (!d.in_transaction()) t << statements().begin << ";";
  t << "SELECT utc_timestamp(6);";
  add_look(t, sets_, request, window);
  auto const answers = d.send(t);
  instant now{};
  show(answers[answers.size() - 2].rows.get(), [&](sql::row const& r) {
    now = r.time(0).value_or(instant{});
    return false;
  });
  auto* const rows = answers.back().rows.get();
  if (request.keyed) return order(c).show_look(rows, now, choose);
  show_candidates(rows, now, choose);
}

// One round trip. When to look again is asked before anything is taken. Behind the commit, notes take three.
std::optional<error> mysql_store::send_take(sql::connection& c, spi::claim_request const& request,
                                            sql::chosen_rows const& chosen, spi::claim_reply& reply,
                                            sql::row_function const& on_row) {
  auto& d = own(c);
  auto t = d.text();
  auto const looks = reply.more ? 0 : add_look_ahead(t, sets_, request);
  for (auto const& k : chosen.dead) {
    auto const why = spi::crash_budget_exhausted(k.crashes);
    t.statement(sets_.make_dead, {std::string_view{why}, std::string_view{k.id}}) << ";";
  }
  if (!chosen.ids.empty()) {
    std::string_view const token = request.token;
    t.statement(sets_.take, {token, std::chrono::microseconds{request.lease}.count()});
    add_numbers(t, sets_.seq, chosen.locators);
    t << ";";
    t.statement(sets_.taken, {token});
    add_numbers(t, sets_.seq, chosen.locators);
    t << ";";
  }
  t << statements().commit;
  auto const answers = d.send(t);
  note_next_due(request, std::span{answers}.first(looks), reply);
  if (!chosen.ids.empty()) show(answers[answers.size() - 2].rows.get(), on_row);
  if (chosen.note.empty()) return {};
  try {
    reply.noted = send_note(c, chosen.note);
  } catch (error& e) {
    return std::move(e);
  }
  return {};
}

// A group whose texts may be too large for one packet becomes several.
std::vector<sql::settle_group> in_pieces(std::span<sql::settle_group const> groups, std::size_t most) {
  std::vector<sql::settle_group> pieces;
  for (auto const& g : groups) {
    std::size_t bytes = most;
    for (std::size_t i = 0; i < g.id.size(); ++i) {
      auto const more = 256 + 2 * (g.progress[i].value_or("").size() + g.error[i].value_or("").size());
      if (bytes + more > most) {
        auto& next = pieces.emplace_back();
        next.outcome = g.outcome;
        next.of_one = g.of_one;
        bytes = 0;
      }
      bytes += more;
      pieces.back().add_from(g, i);
    }
  }
  return pieces;
}

// A statement tells how many rows it has changed, and not which. Nearly always it is all of them.
void mysql_store::send_settle(sql::connection& c, std::span<sql::settle_group const> all, sql::left_rows const& left,
                              spi::settle_reply& reply) {
  auto& d = own(c);
  auto const groups = in_pieces(all, packet_ / 2);
  packets p{d, packet_};
  p.statement([&](sql_text& t) { t << statements().begin; });
  for (auto const& g : groups) p.statement([&](sql_text& t) { add_settlement(t, sets_, g); });
  bool const unblocks = !left.key.empty();
  if (unblocks) order(c).add_unblock(p, left, key_order::behind::lowest);
  p.flush();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (static_cast<std::size_t>(p.answers[i + 1].changed) == groups[i].id.size()) continue;
    d.execute(statements().rollback);
    return settle_with_a_look(d, groups, left, reply);
  }
  d.execute(statements().commit);
  for (auto const& g : groups) {
    for (auto const i : g.indexes) reply.applied[i] = true;
  }
  if (unblocks) reply.unblocked = static_cast<std::size_t>(p.answers.back().changed);
}

// Locks and shows the rows of each group before it changes them. A row whose settlement was lost may stand in line
// between the others.
void mysql_store::settle_with_a_look(driver& d, std::span<sql::settle_group const> groups, sql::left_rows const& left,
                                     spi::settle_reply& reply) const {
  packets p{d, packet_};
  p.statement([&](sql_text& t) { t << statements().begin; });
  for (auto const& g : groups) {
    p.statement([&](sql_text& t) { add_owned(t, sets_, g); });
    p.statement([&](sql_text& t) { add_settlement(t, sets_, g); });
  }
  bool const unblocks = !left.key.empty();
  if (unblocks) order(d).add_unblock(p, left, key_order::behind::each_that_left);
  p.statement([&](sql_text& t) { t << statements().commit; });
  p.flush();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    show(p.answers[1 + 2 * i].rows.get(), [&](sql::row const& r) {
      groups[i].apply(r.text(0), reply.applied);
      return true;
    });
  }
  if (unblocks) reply.unblocked = static_cast<std::size_t>(p.answers[p.answers.size() - 2].changed);
}

void mysql_store::send_renew(sql::connection& c, std::span<sql::optional_text const> ids,
                             std::span<sql::optional_text const> tokens, milliseconds lease,
                             sql::row_function const& on_row) {
  auto const most = packet_ / most_row_bytes;
  for (; ids.size() > most; ids = ids.subspan(most), tokens = tokens.subspan(most)) {
    send_renew(c, ids.first(most), tokens.first(most), lease, on_row);
  }
  auto& d = own(c);
  auto t = d.text();
  add_for_rows(t << statements().begin << ";", sets_.owned, ids, tokens);
  add_for_rows(t << ";", sets_.renew, ids, tokens, {std::chrono::microseconds{lease}.count()});
  t << ";" << statements().commit;
  auto const answers = d.send(t);
  show(answers[1].rows.get(), on_row);
}

std::size_t mysql_store::send_release(sql::connection& c, std::span<owner_token const> tokens, milliseconds lease) {
  constexpr std::string_view mark = "[tokens]";
  auto const most = packet_ / most_row_bytes;
  std::size_t rows = 0;
  for (; tokens.size() > most; tokens = tokens.subspan(most)) rows += send_release(c, tokens.first(most), lease);
  auto& d = own(c);
  auto t = d.text();
  std::string_view rest = sets_.release;
  for (auto at = rest.find(mark); at != std::string_view::npos; at = rest.find(mark)) {
    t.statement(rest.substr(0, at), {std::chrono::microseconds{lease}.count()});
    t.list(tokens, [&](owner_token const& one) { t.text(one); });
    rest.remove_prefix(at + mark.size());
  }
  t.statement(rest, {});
  return rows + static_cast<std::size_t>(d.send(t).back().changed);
}

// Where other servers take writes too, each draws numbers of its own: one that is committed later may be lower.
void mysql_store::prepare_for_keys() {
  if (server_.clustered) {
    throw error{errc::unsupported, "there is no order of keys: the server is part of " + server_.cluster +
                                       ", where seq is not the order in which events are written"};
  }
  bool there = false;
  std::int64_t step = 1;
  with_reader([&](sql::connection& c) {
    there = mysql::has_key_index(own(c), identity_.table, identity_.database);
    step = own(c).ask<std::int64_t>("SELECT @@GLOBAL.auto_increment_increment").value_or(1);
  });
  if (step != 1 && log_) {
    log_({log_level::warning, "the server has auto_increment_increment = " + std::to_string(step) +
                                  ", as where several servers take writes: then seq is not the order in which events "
                                  "are written, and the order of keys is not kept"});
  }
  if (!there) {
    if (!may_migrate_) {
      throw error{errc::store_failure, "table '" + identity_.table + "' in database '" + identity_.database +
                                           "' has no index " + identity_.table +
                                           "_keyed, which a keyed node needs: call outbox::mysql::migrate() with "
                                           ".keyed = true, or run schema/mysql/keyed.sql"};
    }
    auto const c = connector_.open_for_changes(timeout_);
    options o;
    o.table = identity_.table;
    o.timeout = timeout_;
    add_key_index(c.get(), o, identity_.database, server_);
  }
  key_index_ = true;
}

}  // namespace

std::shared_ptr<store> open(std::string const& url, options o) {
  if (o.layout) return open_layout(url, std::move(o));
  check_options(o);
  connector how{url, o.connect};
  if (o.read_only) {
    how.only_read();
    o.migrate = false;
  }
  auto c = o.migrate ? how.open_for_changes(o.timeout) : how.open(o.timeout);
  auto const s = look_at_server(c.get());
  auto const database = resolve_database(c.get(), o);
  auto const full_name = database + "." + o.table;
  o.log = core::limited(std::move(o.log), "the store of " + full_name, {{"table", full_name}});
  if (o.migrate) {
    for (auto const& w : migrate_connection(c.get(), o, database, s).warnings) {
      if (o.log) o.log({log_level::warning, w});
    }
  }
  table_identity const to{o.table, database, check_schema(c.get(), o.table, database)};
  driver d{c.get()};
  for (auto const& f : look_at_settings(d, s, false)) {
    bool const weak = f.level == spi::finding_level::warning || f.level == spi::finding_level::problem;
    if (o.log && weak) o.log({log_level::warning, f.text + " " + f.why});
  }
  bool const indexed = has_key_index(d, o.table, database);
  auto lock = lock_name(d, "dispatch", to.id + "/" + database + "." + o.table);
  how.expect(sql::with_table("outbox_meta", o.table, database, '`'), to.id);
  return std::make_shared<mysql_store>(std::move(how), o, to, s, std::move(lock), indexed);
}

}  // namespace outbox::inline v0::mysql
