// Settings of the server, and how the connection reaches it.
#include "postgres/checks.hpp"
#include "sql/findings.hpp"

namespace outbox::inline v0::postgres {
namespace {

using spi::check;
using spi::finding_level;

std::string value_of(checked const& on, std::string_view setting) {
  return on.d.ask<std::string>("SELECT current_setting($1)", {setting}).value_or("");
}

// A setting that must not be off.
void check_on(check const& here, checked const& on, std::string const& setting, finding_level if_off) {
  auto const value = value_of(on, setting);
  auto const text = "The server has " + setting + " = " + value + ".";
  if (value != "off") return here.passed(text);
  here.says(if_off, text, "ALTER SYSTEM SET " + setting + " = on; SELECT pg_reload_conf();");
}

void check_durability(checked const& on) {
  constexpr std::string_view lost = "Without it a commit that was delivered may be gone after a power failure.";
  check const fsync{on.found, "fsync", lost};
  check_on(fsync, on, "fsync", finding_level::problem);
  check const pages{on.found, "full_page_writes", "Without it a power failure can leave pages that are half written."};
  check_on(pages, on, "full_page_writes", finding_level::problem);
  check const commit{on.found, "synchronous_commit", lost};
  auto const value = value_of(on, "synchronous_commit");
  auto const text = "This role has synchronous_commit = " + value + ".";
  if (value != "off") return commit.passed(text);
  commit.warning(text, "ALTER ROLE CURRENT_USER SET synchronous_commit = on;");
}

void check_isolation(checked const& on) {
  check const here{on.found, "isolation",
                   "Transactions of the application that write events at a higher level fail with SQLSTATE 40001 and "
                   "must be repeated."};
  // The session has another one by now: that of the store.
  auto const level =
      on.d.ask<std::string>("SELECT reset_val FROM pg_settings WHERE name = 'default_transaction_isolation'")
          .value_or("");
  auto const text = "This role has default_transaction_isolation = '" + level + "'.";
  if (level == "read committed") return here.passed(text);
  here.note(text, "ALTER ROLE CURRENT_USER SET default_transaction_isolation = 'read committed';");
}

void check_primary(checked const& on) {
  check const here{on.found, "read_only_server", "A standby takes no writes, so nothing is claimed or settled there."};
  if (!on.d.ask<bool>("SELECT pg_is_in_recovery()").value_or(false)) return here.passed("The server is a primary.");
  here.problem("The server is a standby.",
               "Add target_session_attrs=read-write to the connection, and name every server.");
}

// libpq knows how it has connected. The server knows only the last part of the way, if there is a pooler.
void check_tls(checked const& on) {
  auto* const c = on.d.raw();
  auto const text = [](char const* t) { return t == nullptr ? std::string{} : std::string{t}; };
  spi::transport t{.peer = text(PQhostaddr(c)), .encrypted = PQsslInUse(c) != 0};
  if (auto const host = text(PQhost(c)); t.peer.empty() || host.starts_with('/')) t.peer = host;
  struct free_options {
    void operator()(PQconninfoOption* o) const noexcept { PQconninfoFree(o); }
  };
  std::unique_ptr<PQconninfoOption, free_options> const all{PQconninfo(c)};
  for (auto const* o = all.get(); o != nullptr && o->keyword != nullptr; ++o) {
    if (std::string_view{o->keyword} == "sslmode") t.verified = text(o->val) == "verify-full";
  }
  t.fix = "Add sslmode=verify-full and sslrootcert=FILE to the connection.";
  spi::check_transport(t, on.found);
}

}  // namespace

void check_settings(checked const& on) {
  check_durability(on);
  check_isolation(on);
  check_primary(on);
  check_tls(on);
}

}  // namespace outbox::inline v0::postgres
