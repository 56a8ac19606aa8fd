// The server that an outbox is on: a pool of connections, and the scripts that run on them.
#pragma once

#include <unistd.h>

#include <memory>
#include <mutex>
#include <outbox/error.hpp>
#include <string>
#include <string_view>

#include "core/base/pool.hpp"
#include "redis/answer.hpp"
#include "redis/arguments.hpp"
#include "redis/link.hpp"
#include "redis/scripts.hpp"

namespace outbox::inline v0::redis {

/// A connection of the pool.
struct own_link {
  own_link(address const& where, milliseconds timeout) : line{where, timeout, timeout} {}

  link line;
  bool elsewhere = false;            ///< The server said that another one must be asked.
  ::pid_t const owner = ::getpid();  ///< A forked child makes connections of its own.

  [[nodiscard]] bool alive() noexcept { return !elsewhere && owner == ::getpid() && line.alive(); }
  [[nodiscard]] bool clean() noexcept { return !elsewhere; }
  [[nodiscard]] static bool spoiled_by(error const& /*e*/) noexcept { return false; }
};

/// Thread-safe.
class server {
 public:
  /// `prefix` begins every key. Connects when it is first needed. Throws `error` (invalid_option) about the URL.
  server(std::string const& url, std::string prefix, std::size_t connections, milliseconds timeout);

  /// Runs a script. It is sent by its name; only a server that does not know it gets its text. If the server names
  /// another one (MOVED), that one is asked. Throws `error`, whose text begins with `doing`.
  ///
  /// `sent` becomes true before the script may have an effect: if an error other than one of the server is thrown then,
  /// its outcome is unknown.
  answer run(script const& s, arguments const& args, std::string_view doing, bool* sent = nullptr);

  /// Runs a command of another kind. Throws `error` like `run`.
  answer call(arguments const& command, std::string_view doing);

  /// Runs a script, and waits until so many replicas have confirmed what it did. Returns the number that did in
  /// `confirmed`.
  answer run_and_wait(script const& s, arguments const& args, std::string_view doing, std::size_t replicas,
                      std::size_t& confirmed, bool* sent);

  /// Opens one more connection, for a subscriber. Throws `error`.
  [[nodiscard]] std::unique_ptr<link> connect() const;

  /// Where the server is now.
  [[nodiscard]] address where() const;

  [[nodiscard]] std::string const& prefix() const noexcept { return prefix_; }
  [[nodiscard]] milliseconds timeout() const noexcept { return timeout_; }
  [[nodiscard]] spi::subscription on_wait(core::wait_signal::callback f) { return pool_.on_wait(std::move(f)); }

 private:
  [[nodiscard]] answer run_on(link& l, script const& s, arguments const& args, bool* sent) const;
  template <class F>
  answer on_link(F&& ask, std::string_view doing);

  std::string const prefix_;
  milliseconds const timeout_;
  std::size_t const connections_;
  mutable std::mutex mutex_;
  address where_;
  core::pool<own_link> pool_;
};

/// The words "EVALSHA", the script's name, "1", the prefix and the arguments. With `whole`, "EVAL" and its text.
[[nodiscard]] std::vector<std::string_view> script_command(script_text const& s, std::string_view prefix,
                                                           arguments const& args, bool whole);

/// Waits until so many replicas have confirmed what was written on this connection, for three quarters of `timeout`:
/// the server answers before the connection gives up. Returns how many have. Throws `error` if the connection is lost.
template <class Connection>
[[nodiscard]] std::size_t wait_for_replicas(Connection& c, std::size_t replicas, milliseconds timeout) {
  c.add({"WAIT", std::to_string(replicas), std::to_string(timeout.count() * 3 / 4)});
  return static_cast<std::size_t>(c.next().number());
}

/// The error for an error that a script answered: `duplicate_event` if the script says so, else that of `error_of`.
[[nodiscard]] error error_of_script(answer_view a, std::string_view doing);

}  // namespace outbox::inline v0::redis
