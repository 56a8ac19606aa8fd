#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <outbox/error.hpp>
#include <outbox/sqlite.hpp>

#include "core/base/log_book.hpp"
#include "sql/row_store.hpp"
#include "sql/table_name.hpp"
#include "sqlite/caller_connection.hpp"
#include "sqlite/change_watch.hpp"
#include "sqlite/dispatch_lock.hpp"
#include "sqlite/driver.hpp"
#include "sqlite/findings.hpp"
#include "sqlite/foreign_rows.hpp"
#include "sqlite/fork_gate.hpp"
#include "sqlite/layout_store.hpp"
#include "sqlite/migrate.hpp"
#include "sqlite/own_connection.hpp"
#include "sqlite/statements.hpp"
#include "sqlite/time_limit.hpp"

namespace outbox::inline v0::sqlite {
namespace {

class sqlite_store final : public sql::row_store, public std::enable_shared_from_this<sqlite_store> {
 public:
  /// `migrated`: the file whose schema was checked.
  sqlite_store(std::string const& path, options o, std::shared_ptr<clock const> c,
               std::optional<file_identity> const& migrated)
      : row_store{shared_statements({.table = o.table}), row_statements({.table = o.table}), o.done_rows},
        options_{std::move(o)},
        clock_{std::move(c)},
        foreign_{options_.table},
        writer_{path, options_, *clock_},
        reader_{path, options_, *clock_} {
    auto const file = identity_of(writer_.db.get());
    if (!file) throw error{errc::invalid_option, "a SQLite store needs a file, and '" + path + "' is not one"};
    file_ = *file;
    if (identity_of(reader_.db.get()) != file || (migrated && migrated != file)) {
      throw error::about(errc::store_failure, "connect", "returned a handle to another file than before");
    }
    full_name_ = options_.table + " in " + path;
    options_.log = core::limited(std::move(options_.log), "the store of " + full_name_, {{"table", full_name_}});
  }

  store_capabilities capabilities() const noexcept override {
    return {.kind = "sqlite",
            .keeps_done_rows = options_.done_rows == done_rows::keep,
            .table = full_name_,
            .dispatch_lock = lock_kind::session,
            .event_filters = true,
            .audit = true,
            .event_types = true,
            .keys = true,
            .findings = true,
            .overview = true,
            .waiting_types = true};
  }

  instant now() override { return clock_->now(); }

  // A row of another program that arrives between the correction and the claim is left to the next claim.
  spi::claim_reply claim(spi::claim_request const& request) override {
    bool any = false;
    with_reader([&](sql::connection& c) { any = foreign_.any(c); });
    foreign_rows::mended mended;
    try {
      if (any) in_transaction([&](sql::connection& c) { mended = foreign_.mend(c); });
      mending_failed_ = false;
    } catch (error const& e) {
      if (e.transient()) throw;
      mended = {};  // a trigger of the application has rolled it back: those rows wait, the others do not
      warn_of_rows_that_wait(e);
    }
    auto reply = row_store::claim(request);
    report(mended, request, reply);
    return reply;
  }

  spi::subscription on_change(std::function<void()> callback) override {
    return changes_.subscribe(std::move(callback), [weak = weak_from_this()] {
      auto const self = weak.lock();
      return self ? self->data_version() : std::nullopt;
    });
  }

  // What gives rows to other nodes that share this store. Those with other connections see it in the file.
  spi::settle_reply settle(std::span<spi::settlement const> items) override {
    auto reply = row_store::settle(items);
    bool const ended = std::ranges::all_of(items, [](spi::settlement const& s) {
      return s.outcome == spi::outcome::delivered || s.outcome == spi::outcome::dead;
    });
    if (!ended || reply.unblocked > 0) changes_.push();
    return reply;
  }
  std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) override {
    return pushed(row_store::release(tokens, lease));
  }
  std::size_t replay(event_filter const& filter, std::size_t limit) override {
    return pushed(row_store::replay(filter, limit));
  }
  std::size_t heal(std::size_t limit) override { return pushed(row_store::heal(limit)); }
  std::size_t discard(event_filter const& filter, std::size_t limit) override {
    return pushed(row_store::discard(filter, limit));
  }
  bool resume(route_pause const& what) override { return pushed(row_store::resume(what)); }

  // Each keyed node does this when it starts, and mostly the index is there: that must not wait for a writer.
  void prepare_for_keys() override {
    bool has_index = false;
    with_reader([&](sql::connection& c) { has_index = sqlite::has_key_index(c, options_.table); });
    if (has_index) return;
    refuse_without_migrate();
    in_transaction([&](sql::connection& c) {
      if (!sqlite::has_key_index(c, options_.table)) c.execute(key_index(options_.table));
    });
  }

  void set_keyed(bool keyed) override {
    if (keyed) prepare_for_keys();
    // If this is interrupted, no node of another mode has begun beside notes. Once more behind the mark: a keyed node
    // may have noted rows until it heard of it.
    if (!keyed) clear_notes();
    in_transaction([&](sql::connection& c) {
      c.execute(statements().write_meta, {std::string_view{"keyed"}, std::string_view{keyed ? "1" : "0"}});
    });
    if (keyed) return;
    clear_notes();
    changes_.push();
  }

  std::vector<spi::finding> findings(spi::finding_limits const& limits) override {
    std::vector<spi::finding> found;
    with_reader([&](sql::connection&) {
      found = findings_of(reader_.statements, {options_.table, row_by_row().due, statements()}, limits);
    });
    return found;
  }

  void hint() noexcept override {}  // every process sees the commit in the file

  std::unique_ptr<spi::dispatch_lock> try_dispatch_lock(std::string_view incarnation,
                                                        std::chrono::milliseconds /*lease*/) override {
    auto const path = std::string{sqlite3_db_filename(writer_.db.get(), "main")} + "-" + options_.table + ".lock";
    return try_lock_file(path, [weak = weak_from_this(), me = std::string{incarnation}]() -> std::size_t {
      auto const self = weak.lock();
      return self ? self->expire_others(me) : 0;
    });
  }

 protected:
  // The threads of the store queue here instead of competing for the lock of the database.
  void with_writer(work const& f) override {
    std::lock_guard const lock{writer_.mutex};
    inside_sqlite const here;
    f(writer_.statements);
  }
  void with_reader(work const& f) override {
    std::lock_guard const lock{reader_.mutex};
    inside_sqlite const here;
    time_limit const limit{reader_.db.get(), options_.read_timeout};
    try {
      f(reader_.statements);
    } catch (error const&) {
      if (!limit.over()) throw;
      throw error{errc::unavailable,
                  "the read took longer than " + std::to_string(options_.read_timeout.count()) + " ms and was ended"};
    }
  }

  void with_caller(transaction_ref tx, work const& f) override {
    if (tx.kind() != "sqlite") throw error{errc::wrong_transaction, "a SQLite store needs a SQLite transaction"};
    bool const joined = tx.run<sql::connection>([&](sql::connection& on) {
      auto* const c = dynamic_cast<caller_connection*>(&on);
      if (c == nullptr) throw error{errc::wrong_transaction, "the transaction is not one that a SQLite store can join"};
      check_file(c->file());
      c->writes_to(row_by_row().exists);
      c->use_clock(*clock_);
      f(*c);
    });
    if (!joined) throw error{errc::wrong_transaction, "the transaction gives its store nothing to work on"};
  }

 private:
  void refuse_without_migrate() const {
    if (options_.migrate) return;
    throw error{errc::store_failure, "table '" + options_.table + "' has no index '" + options_.table +
                                         "_keyed', which an order per key needs: call outbox::sqlite::migrate() with "
                                         ".keyed = true, or run: " +
                                         key_index(options_.table)};
  }

  // In order, a row that cannot be put in form holds up the rows behind it, which is an error like any other row that
  // cannot be claimed. Rows that the node knows of already are not reported again.
  static void report(foreign_rows::mended& mended, spi::claim_request const& request, spi::claim_reply& reply) {
    if (request.in_order && reply.rows.empty() && !mended.refused.empty()) {
      auto const& first = mended.refused.front();
      throw error{errc::store_failure, "event " + first.id + " cannot be put in form: " + first.error};
    }
    std::ranges::move(mended.dead, std::back_inserter(reply.dead));
    std::ranges::copy_if(mended.refused, std::back_inserter(reply.refused), [&](spi::refused_row const& r) {
      return std::ranges::find(request.leave, r.id) == request.leave.end();
    });
    reply.more = reply.more || mended.more;
  }

  // Says it once until it has succeeded again.
  void warn_of_rows_that_wait(error const& e) noexcept {
    if (mending_failed_.exchange(true) || !options_.log) return;
    try {
      auto const text = std::string{"rows that another program wrote cannot be put in form and wait: "} + e.what();
      log_field const fields[] = {{"error", e.what()}, {"code", outbox::v0::name(e.code())}};
      options_.log({.level = log_level::warning, .message = text, .fields = fields});
    } catch (...) {  // NOLINT(bugprone-empty-catch): a log that throws must not stop the claim
    }
  }

  // Changes when a connection commits that is not the writer: a claim or a settlement of ours is no news, and a node
  // that is told about its own would never rest.
  std::optional<std::int64_t> data_version() noexcept {
    std::optional<std::int64_t> version;
    try {
      // A long change must not hold up the end of a subscription: the watch checks again soon anyway.
      std::unique_lock const lock{writer_.mutex, std::try_to_lock};
      if (!lock || fork_under_way()) return std::nullopt;
      inside_sqlite const here;
      version = writer_.statements.ask<std::int64_t>("PRAGMA data_version");
    } catch (...) {  // NOLINT(bugprone-empty-catch): the node polls anyway
    }
    return version;
  }

  template <class Count>
  Count pushed(Count changed) {
    if (changed) changes_.push();
    return changed;
  }

  void check_file(std::optional<file_identity> const& file) const {
    if (file == file_) return;
    throw error{errc::wrong_transaction, "the transaction is on another database file than the node's store"};
  }

  options options_;
  std::shared_ptr<clock const> clock_;
  foreign_rows foreign_;
  own_connection writer_, reader_;
  file_identity file_;
  std::string full_name_;
  std::atomic<bool> mending_failed_ = false;
  change_watch changes_{file_name(writer_.db.get()) + "-wal"};
};

}  // namespace

std::shared_ptr<store> open(std::string const& path, options o) {
  if (o.layout) return open_layout(path, std::move(o));
  sql::check_table_name(o.table);
  auto name = path;
  std::optional<file_identity> file;
  {
    patience wait{o.busy_timeout, waiting::in_short_steps};
    if (o.read_only) o.migrate = false;
    // Without the right to create the table, an empty file would be of no use.
    if (!o.migrate && !o.connect && !std::filesystem::exists(path)) {
      throw error{errc::store_failure,
                  "cannot open the outbox in '" + path + "': there is no such file" +
                      (o.read_only ? "" : ": call outbox::sqlite::migrate(), or open with .migrate = true")};
    }
    auto const db = open_handle(path, o.connect, o.busy_timeout, o.synchronous, o.read_only);
    wait.attach(db.get());
    inside_sqlite const here;
    if (o.connect) name = file_name(db.get());
    naming_file(name, [&] {
      if (o.migrate) migrate_handle(db.get(), o.table, o.keyed);
      check_schema(db.get(), o.table);
    });
    file = identity_of(db.get());
  }
  auto c = o.clock ? o.clock : machine_clock();
  return std::make_shared<sqlite_store>(name, std::move(o), std::move(c), file);
}

}  // namespace outbox::inline v0::sqlite
