// Helps a store to write its findings: one object per check, with the code and the reason that all its results share.
#pragma once

#include <outbox/error.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outbox::inline v0::spi {

/// One check. Each call adds a finding to the list, which must outlive the check.
///
///     check const here{found, "fsync", "Without it a commit may be gone after a power failure."};
///     here.says(off ? finding_level::problem : finding_level::passed, "The server has fsync = off.", "…");
///
/// Use from one thread at a time.
class check {
 public:
  /// `code` is a fixed word and `why` one sentence. Both must outlive the check.
  check(std::vector<finding>& into, std::string_view code, std::string_view why) noexcept
      : into_{into}, code_{code}, why_{why} {}

  /// Adds a finding of any level.
  void says(finding_level level, std::string text, std::string fix = {}) const {
    into_.push_back({level, std::string{code_}, std::move(text), std::string{why_}, std::move(fix)});
  }

  void passed(std::string text) const { says(finding_level::passed, std::move(text)); }
  void note(std::string text, std::string fix = {}) const {
    says(finding_level::note, std::move(text), std::move(fix));
  }
  void warning(std::string text, std::string fix) const {
    says(finding_level::warning, std::move(text), std::move(fix));
  }
  void problem(std::string text, std::string fix) const {
    says(finding_level::problem, std::move(text), std::move(fix));
  }

  /// What the check looks for is not known, and why.
  void skipped(std::string text, std::string fix = {}) const {
    says(finding_level::skipped, std::move(text), std::move(fix));
  }

  /// Runs `look`. If the database refuses what it asks, the check is skipped, and `fix` says what allows it. Throws
  /// what `look` throws if that is transient: the database is gone, and the next check would find the same.
  template <class F>
  void attempt(F&& look, std::string fix = {}) const {
    try {
      std::forward<F>(look)();
    } catch (error const& e) {
      if (e.transient()) throw;
      skipped("This could not be asked: " + std::string{e.what()} + ".", std::move(fix));
    }
  }

 private:
  std::vector<finding>& into_;
  std::string_view code_;
  std::string_view why_;
};

/// How a connection reaches its server.
struct transport {
  std::string peer{};      ///< The host, its address, or the path of a socket.
  bool encrypted = false;  ///< By TLS.
  bool verified = false;   ///< The server's certificate and its name were compared.
  std::string fix{};       ///< What asks for a verified connection.
};

/// "tls": whether a connection that leaves the machine is encrypted and knows its server.
inline void check_transport(transport const& t, std::vector<finding>& found) {
  check const here{found, "tls", "Events and passwords can be read or changed on a network that is not encrypted."};
  auto const& peer = t.peer;
  bool const local = peer.empty() || peer.starts_with('/') || peer.starts_with('@') || peer.starts_with("127.") ||
                     peer == "::1" || peer == "localhost";
  if (local) return here.passed("The connection does not leave this machine.");
  if (!t.encrypted) return here.warning("The connection to " + peer + " is not encrypted.", t.fix);
  if (!t.verified) {
    return here.warning("The connection to " + peer + " is encrypted, but the server's certificate is not checked.",
                        t.fix);
  }
  here.passed("The connection to " + peer + " is encrypted, and the server's certificate is checked.");
}

}  // namespace outbox::inline v0::spi
