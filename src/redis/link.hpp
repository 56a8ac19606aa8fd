// One connection to a server: our own socket, with TLS if the URL asks for it. hiredis writes the commands and reads
// the answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <outbox/error.hpp>
#include <span>
#include <string>
#include <string_view>

#include "redis/answer.hpp"
#include "redis/url.hpp"

namespace outbox::inline v0::redis {

using std::chrono::milliseconds;

/// The words of a command.
using word_list = std::span<std::string_view const>;

/// What a server says about itself when a client connects.
struct server_facts {
  std::string version{};  ///< As in "7.0.15"; empty if it does not say: a server before Redis 6, or a proxy.
  bool cluster = false;   ///< It belongs to a cluster.
  bool replica = false;   ///< It has a primary, and takes no changes.
};

/// Commands are queued by `add()`, and sent by `flush()` or by the first `next()`. After an error of the connection it
/// is of no use any more. Use from one thread at a time.
class link {
 public:
  /// Connects, encrypts, authenticates and selects the database. `connecting` bounds all of that but the look-up of the
  /// host's name, `answering` each wait for an answer; 0: no limit. Throws `error`: unavailable if there is no server,
  /// it does not answer in time, or has too many clients; store_failure if it refuses the account, the database or TLS,
  /// or is a Sentinel. A server that still loads its data takes connections; it says so to the first command.
  link(address const& where, milliseconds connecting, milliseconds answering);
  link(link const&) = delete;
  link& operator=(link const&) = delete;
  ~link();

  void add(word_list command);
  void add(std::initializer_list<std::string_view> command) { add(word_list{command.begin(), command.size()}); }

  /// Sends what is queued. Throws `error` (unavailable) if the server does not take it in time. If the connection is
  /// lost, the next `next()` or `wait()` says so.
  void flush();

  /// The next answer, an error included. Throws `error` (unavailable) if the connection is lost or nothing comes in
  /// time.
  [[nodiscard]] answer next();

  /// Waits for the next answer for at most this long, or until `interrupt`, a descriptor, can be read. Returns false if
  /// there is none; 0: does not wait. Throws like `next()`, but not because of the time. For a subscriber.
  [[nodiscard]] bool wait(milliseconds at_most, int interrupt);

  /// Sends one command and returns its answer. All answers before it must have been read. Throws `error` if the answer
  /// is one.
  answer call(word_list command);
  answer call(std::initializer_list<std::string_view> command) {
    return call(word_list{command.begin(), command.size()});
  }

  /// False if it cannot be used for the next command: answers are still to come, the connection is lost, the server has
  /// ended it or sent what it was not asked for. As far as is known without a round trip.
  [[nodiscard]] bool alive() noexcept;

  [[nodiscard]] address const& where() const noexcept { return where_; }
  [[nodiscard]] server_facts const& server() const noexcept { return facts_; }

 private:
  class stream;
  void greet(std::chrono::steady_clock::time_point until);

  address where_;
  milliseconds answering_;
  server_facts facts_;
  std::unique_ptr<stream> stream_;
};

/// Throws `error` (store_failure) if the command has more than 1 GiB: hiredis counts in an int, and servers refuse it.
void check_size(word_list command);

/// The error for an error that the server answered. `doing` begins its text: "cannot claim". Its code:
///
/// - unavailable: OOM, LOADING, BUSY, MASTERDOWN, READONLY, MISCONF, NOREPLICAS, CLUSTERDOWN, TRYAGAIN, MOVED, ASK,
///   "max number of clients": they pass.
/// - store_failure: NOPERM, NOAUTH, WRONGPASS, WRONGTYPE and everything else.
[[nodiscard]] error error_of(answer_view a, std::string_view doing);

/// True if the connection must not be used again after this answer: it leads to a server that is, or has become, the
/// wrong one (READONLY, MASTERDOWN, LOADING, CLUSTERDOWN, MOVED).
[[nodiscard]] bool leads_elsewhere(answer_view a) noexcept;

/// The place that a MOVED answer names, with the account and the TLS of `from`. Nothing if it is no such answer. An
/// empty host in the answer means the same host.
[[nodiscard]] std::unique_ptr<address> moved_to(answer_view a, address const& from);

}  // namespace outbox::inline v0::redis
