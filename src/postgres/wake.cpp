#include "postgres/wake.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/reconnect_pause.hpp"
#include "core/base/thread_name.hpp"
#include "postgres/migrate.hpp"
#include "postgres/own_connection.hpp"

namespace outbox::inline v0::postgres {
namespace {

using std::chrono::steady_clock;

// poll() waits without a limit.
constexpr milliseconds for_ever{-1};

// How long a store that is closed waits for the server to take its last notification.
constexpr milliseconds last_limit{1000};

// 61 characters at most: a name may have 63.
std::string channel_of(std::string_view table_id) {
  std::string name = "outbox_";
  std::ranges::copy_if(table_id, std::back_inserter(name), [](char c) { return c != '-'; });
  std::ranges::replace(name, '/', '_');
  return name;
}

// The channel of earlier versions. Programs that notify by themselves may still know that one.
std::string older_channel_of(std::string_view table_id) {
  std::string name = "outbox_";
  std::ranges::copy_if(older_table_id(table_id), std::back_inserter(name), [](char c) { return c != '-' && c != '/'; });
  return name;
}

struct free_notify {
  void operator()(PGnotify* n) const noexcept { PQfreemem(n); }
};

}  // namespace

wake_line::wake_line(connector how, milliseconds timeout, std::string_view table_id, log_function log)
    : connector_{std::move(how)},
      timeout_{timeout},
      channel_{channel_of(table_id)},
      older_channel_{older_channel_of(table_id)},
      log_{std::move(log)} {
  connect_and_listen();
  self_test();
  if (::pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) throw error{errc::unavailable, "cannot make a pipe"};
  thread_ = std::thread{[this] { loop(); }};
}

wake_line::~wake_line() {
  quit_ = true;
  ring();
  if (thread_.joinable()) thread_.join();
  ::close(wake_[0]);
  ::close(wake_[1]);
}

void wake_line::say() noexcept {
  if (!wanted_.exchange(true)) ring();  // else the thread knows already
}

void wake_line::ring() noexcept {
  char const byte = 0;
  [[maybe_unused]] auto const written = ::write(wake_[1], &byte, 1);
}

void wake_line::connect_and_listen() {
  conn_ = connector_.open(timeout_);
  driver d{conn_.get(), prepared::once, timeout_};
  if (auto const s = silence_setting(conn_.get()); !s.empty()) d.execute("SET " + std::string{s});
  // A notification is a commit, and what it announces is on the disk already. Servers do not wait for the disk if a
  // transaction only notifies; this says so, rather than rely on it.
  d.execute("SET synchronous_commit = off");
  d.execute("LISTEN " + channel_);
  d.execute("LISTEN " + older_channel_);
}

// A pooler takes LISTEN without a word, and nothing ever arrives from others.
void wake_line::self_test() {
  auto const other = connector_.open(timeout_);
  driver{other.get(), prepared::once, timeout_}.execute("NOTIFY " + channel_);
  auto const deadline = steady_clock::now() + timeout_;
  while (!take_notifications()) {
    auto const left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
    ::pollfd socket{PQsocket(conn_.get()), POLLIN, 0};
    if (left <= 0 || PQstatus(conn_.get()) != CONNECTION_OK) {
      throw error{errc::store_failure,
                  "notify is on, but a notification to this connection did not arrive: is there a pooler in between?"};
    }
    ::poll(&socket, 1, static_cast<int>(std::min<std::int64_t>(left, 1000)));
  }
}

bool wake_line::take_notifications() {
  if (PQconsumeInput(conn_.get()) == 0) throw error_of(conn_.get(), nullptr, "cannot listen");
  bool any = false;
  while (std::unique_ptr<PGnotify, free_notify> const n{PQnotifies(conn_.get())}) any = true;
  if (PQstatus(conn_.get()) != CONNECTION_OK) throw error_of(conn_.get(), nullptr, "cannot listen");
  return any;
}

void wake_line::wait(milliseconds at_most) {
  ::pollfd ends[] = {{conn_ ? PQsocket(conn_.get()) : -1, POLLIN, 0}, {wake_[0], POLLIN, 0}};
  ::poll(ends, 2, static_cast<int>(at_most.count()));
  char drained[64];
  while (::read(wake_[0], drained, sizeof drained) > 0) {
  }
}

// How long until something may be said. Notifications interrupt it, also our own. The TLS layer may hold bytes that are
// no longer on the socket, so with TLS there is a limit.
milliseconds wake_line::until_next() const {
  constexpr milliseconds with_tls{1000};
  if (!wanted_) return PQsslInUse(conn_.get()) != 0 ? with_tls : for_ever;
  return std::max(milliseconds{0}, std::chrono::ceil<milliseconds>(pace_.next() - steady_clock::now()));
}

void wake_line::send(milliseconds timeout) {
  wanted_ = false;
  try {
    driver{conn_.get(), prepared::once, timeout}.execute("NOTIFY " + channel_);
  } catch (...) {
    wanted_ = true;  // on the next connection
    throw;
  }
  pace_.sent(steady_clock::now());
}

// Only this object knows which hint is still unsent when the store closes, as in a process that commits and ends.
void wake_line::send_the_last() noexcept {
  auto const limit = std::min(timeout_, last_limit);
  for (bool const again : {false, true}) {
    if (!wanted_) return;
    try {
      if (again || !conn_) conn_ = connector_.open(limit);
      return send(limit);
    } catch (std::exception const&) {
      if (!std::exchange(conn_, nullptr)) return;  // it could not be made: the next poll finds what was written
    }
  }
}

void wake_line::reconnect() {
  core::reconnect_pause pause{milliseconds{100}, milliseconds{5000}};
  while (!quit_) {
    conn_.reset();
    wait(pause.next());
    if (quit_) return;
    try {
      connect_and_listen();
      changes_.notify();
      return remark(log_level::warning, "listening for notifications again");
    } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): said once, when it was lost
    }
  }
}

void wake_line::loop() noexcept {
  core::set_thread_name("outbox-listen");
  while (!quit_) {
    try {
      if (take_notifications()) changes_.notify();
      if (wanted_ && until_next() == milliseconds{0}) {
        send(timeout_);
        if (take_notifications())
          changes_.notify();  // what came while something was sent is not on the socket any more
      }
      if (!quit_) wait(until_next());
    } catch (std::exception const& e) {
      remark(log_level::warning, std::string{"notifications are off for now: "} + e.what());
      reconnect();
    }
  }
  send_the_last();
}

void wake_line::remark(log_level level, std::string const& text) noexcept {
  try {
    if (log_) log_({level, text});
  } catch (...) {  // NOLINT(bugprone-empty-catch): a log that throws must not end the thread
  }
}

}  // namespace outbox::inline v0::postgres
