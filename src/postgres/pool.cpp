#include "postgres/pool.hpp"

#include <algorithm>

namespace outbox::inline v0::postgres {
namespace {

using std::chrono::steady_clock;

// Ends what is left of a transaction that went wrong. False: the connection is of no use any more.
bool clean(own_connection& c) noexcept {
  auto* const raw = c.conn.get();
  if (PQpipelineStatus(raw) != PQ_PIPELINE_OFF && PQexitPipelineMode(raw) == 0) return false;
  auto const s = PQtransactionStatus(raw);
  if (s != PQTRANS_INTRANS && s != PQTRANS_INERROR) return true;
  try {
    c.statements.execute("ROLLBACK");
    return true;
  } catch (std::exception const&) {
    return false;
  }
}

}  // namespace

// A server that ends a session says so first, and only the next look sees that the connection is closed.
bool looks_alive(PGconn* c) noexcept {
  for (int look = 0; look < 2; ++look) {
    if (PQconsumeInput(c) == 0) return false;
  }
  return PQstatus(c) == CONNECTION_OK && PQtransactionStatus(c) == PQTRANS_IDLE;
}

std::string_view silence_setting(PGconn const* c) noexcept {
  constexpr int with_idle_timeout = 140'000;
  return PQserverVersion(c) >= with_idle_timeout ? "idle_session_timeout = 0" : "";
}

bool behind_pooler(PGconn* c, milliseconds timeout) {
  std::int64_t pid = 0;
  driver{c, prepared::once, timeout}.execute("SELECT pg_backend_pid()", {}, [&](sql::row const& r) {
    pid = r.integer(0);
    return false;
  });
  return pid != PQbackendPID(c);
}

std::unique_ptr<own_connection> connect_own(std::string const& connection_string, milliseconds timeout) {
  auto c = connect(connection_string, timeout);
  PQsetnonblocking(c.get(), 1);
  bool const pooled = behind_pooler(c.get(), timeout);
  if (!pooled) {
    auto const limit = std::to_string(timeout.count());
    std::vector<std::string> settings{"statement_timeout = " + limit, "idle_in_transaction_session_timeout = " + limit,
                                      "default_transaction_isolation = 'read committed'",
                                      "default_transaction_read_only = off", "plan_cache_mode = force_generic_plan"};
    settings.insert(settings.end(), std::begin(plan_settings), std::end(plan_settings));
    if (auto const s = silence_setting(c.get()); !s.empty()) settings.emplace_back(s);
    std::vector<statement> all;
    all.reserve(settings.size());
    for (auto const& s : settings) all.push_back({"SET " + s, parameters{}});
    static_cast<void>(driver{c.get(), prepared::once, timeout}.send_or_throw(all));
  }
  auto* const raw = c.get();
  return std::unique_ptr<own_connection>{
      new own_connection{std::move(c), driver{raw, pooled ? prepared::once : prepared::kept, timeout}}};
}

std::unique_ptr<own_connection> pool::take() {
  std::unique_lock lock{mutex_};
  auto const deadline = steady_clock::now() + timeout_;
  while (true) {
    while (!idle_.empty()) {
      auto c = std::move(idle_.back());
      idle_.pop_back();
      if (looks_alive(c->conn.get())) return c;
      --made_;
    }
    if (made_ < most_) break;
    if (freed_.wait_until(lock, deadline) == std::cv_status::timeout) {
      throw error{errc::unavailable, "all " + std::to_string(most_) + " connections of the store are in use"};
    }
  }
  if (auto const now = steady_clock::now(); now < not_before_) {
    if (refused_) throw *refused_;
    throw error{errc::unavailable, "the server could not be reached; the next attempt is in " +
                                       std::to_string(std::chrono::ceil<milliseconds>(not_before_ - now).count()) +
                                       " ms"};
  }
  ++made_;
  lock.unlock();
  return make();
}

// Attempts that fail come less and less often, and never all at once: other nodes see the same outage.
std::unique_ptr<own_connection> pool::make() {
  try {
    auto c = connect_own(connection_string_, timeout_);
    std::lock_guard const lock{mutex_};
    failures_ = 0;
    not_before_ = {};
    connected_ = true;
    return c;
  } catch (error const& e) {
    note_failure(e);
    // The connection string was right before, so an operator may undo what broke it: a running node waits for that.
    if (connected_) throw error{errc::unavailable, e.what(), std::string{e.sqlstate()}};
    throw;
  } catch (std::exception const& e) {
    note_failure(error{errc::unavailable, e.what()});
    throw;
  }
}

void pool::note_failure(error const& e) {
  std::lock_guard const lock{mutex_};
  --made_;
  refused_.reset();
  if (!e.transient() && !connected_) refused_ = e;
  auto const base = std::min(milliseconds{50} * (1 << std::min(failures_++, 6)), milliseconds{2000});
  auto const jitter = std::uniform_real_distribution<double>{0.5, 1.5}(random_);
  not_before_ = steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(base * jitter);
  freed_.notify_one();
}

void pool::give_back(std::unique_ptr<own_connection> c, bool spoiled) noexcept {
  bool const good = !spoiled && clean(*c) && looks_alive(c->conn.get());
  if (!good) c.reset();
  std::lock_guard const lock{mutex_};
  if (good) {
    idle_.push_back(std::move(c));
  } else {
    --made_;
  }
  freed_.notify_one();
}

}  // namespace outbox::inline v0::postgres
