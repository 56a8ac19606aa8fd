#include "postgres/own_connection.hpp"

#include <vector>

namespace outbox::inline v0::postgres {

bool own_connection::clean() noexcept {
  auto* const raw = conn.get();
  if (PQpipelineStatus(raw) != PQ_PIPELINE_OFF && PQexitPipelineMode(raw) == 0) return false;
  auto const s = PQtransactionStatus(raw);
  if (s != PQTRANS_INTRANS && s != PQTRANS_INERROR) return true;
  try {
    statements.execute("ROLLBACK");
    return true;
  } catch (std::exception const&) {
    return false;
  }
}

// A server that ends a session says so first. Only the second look sees that the connection is closed.
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
  driver d{c, prepared::once, timeout};
  return d.ask<std::int64_t>("SELECT pg_backend_pid()") != PQbackendPID(c);
}

std::unique_ptr<own_connection> connect_own(connector const& how, milliseconds timeout) {
  auto c = how.open(timeout);
  PQsetnonblocking(c.get(), 1);
  bool const pooled = behind_pooler(c.get(), timeout);
  if (!pooled) {
    auto const limit = std::to_string(timeout.count());
    std::vector<std::string> settings{
        "statement_timeout = " + limit, "idle_in_transaction_session_timeout = " + limit,
        "default_transaction_isolation = 'read committed'",
        std::string{"default_transaction_read_only = "} + (how.read_only() ? "on" : "off"),
        "plan_cache_mode = force_generic_plan"};
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

}  // namespace outbox::inline v0::postgres
