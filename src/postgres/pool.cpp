#include "postgres/pool.hpp"

#include <algorithm>

namespace outbox::inline v0::postgres {
namespace {

using std::chrono::steady_clock;

// What is left of a transaction that went wrong.
void clean(PGconn* c) noexcept {
  if (PQpipelineStatus(c) != PQ_PIPELINE_OFF) PQexitPipelineMode(c);
  auto const s = PQtransactionStatus(c);
  if (s == PQTRANS_INTRANS || s == PQTRANS_INERROR) result_handle const done{PQexec(c, "ROLLBACK")};
}

}  // namespace

// A server that ends a session says so first, and only the next look sees that the connection is closed.
bool looks_alive(PGconn* c) noexcept {
  for (int look = 0; look < 2; ++look) {
    if (PQconsumeInput(c) == 0) return false;
  }
  return PQstatus(c) == CONNECTION_OK && PQtransactionStatus(c) == PQTRANS_IDLE;
}

void allow_silence(PGconn* c) {
  constexpr int with_idle_timeout = 140'000;
  if (PQserverVersion(c) >= with_idle_timeout) run(c, "SET idle_session_timeout = 0");
}

bool behind_pooler(PGconn* c) {
  result_handle const r{PQexec(c, "SELECT pg_backend_pid()")};
  if (PQresultStatus(r.get()) != PGRES_TUPLES_OK) throw error_of(c, r.get(), "cannot ask the server who it is");
  return std::string_view{PQgetvalue(r.get(), 0, 0)} != std::to_string(PQbackendPID(c));
}

std::unique_ptr<own_connection> connect_own(std::string const& connection_string, milliseconds timeout) {
  auto c = connect(connection_string, timeout);
  bool const pooled = behind_pooler(c.get());
  if (!pooled) {
    auto const limit = std::to_string(timeout.count());
    auto settings = "SET statement_timeout = " + limit + "; SET idle_in_transaction_session_timeout = " + limit +
                    "; SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off; "
                    "SET plan_cache_mode = force_generic_plan";
    for (auto const s : plan_settings) settings += "; SET " + std::string{s};
    run(c.get(), settings);
    allow_silence(c.get());
  }
  PQsetnonblocking(c.get(), 1);
  auto* const raw = c.get();
  return std::unique_ptr<own_connection>{new own_connection{std::move(c), driver{raw, /*keep=*/!pooled, timeout}}};
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
    return c;
  } catch (...) {
    std::lock_guard const lock{mutex_};
    --made_;
    auto const base = std::min(milliseconds{50} * (1 << std::min(failures_++, 6)), milliseconds{2000});
    auto const jitter = std::uniform_real_distribution<double>{0.5, 1.5}(random_);
    not_before_ = steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(base * jitter);
    freed_.notify_one();
    throw;
  }
}

void pool::give_back(std::unique_ptr<own_connection> c, bool spoiled) noexcept {
  if (!spoiled) clean(c->conn.get());
  bool const good = !spoiled && looks_alive(c->conn.get());
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
