#include "redis/wake.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <outbox/error.hpp>
#include <utility>

#include "core/base/reconnect_pause.hpp"
#include "core/base/thread_name.hpp"

namespace outbox::inline v0::redis {
namespace {

using std::chrono::steady_clock;

// After so long without a word the server is asked whether it is there. The subscription could otherwise be dead for
// hours before the operating system notices.
constexpr milliseconds silence{15'000};

}  // namespace

wake_line::wake_line(std::shared_ptr<server> where, log_function log)
    : server_{std::move(where)}, channel_{server_->prefix() + "wake"}, log_{std::move(log)} {
  listen();
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

void wake_line::listen() {
  link_ = server_->connect();
  link_->call({"SUBSCRIBE", channel_});
  heard_at_ = steady_clock::now();
  asked_ = false;
}

// Everything that came counts as one change.
void wake_line::hear() {
  bool message = false;
  do {
    auto const a = link_->next();
    if (a.failed()) throw error_of(a, "cannot listen");
    message = message || a[0].text() == "message";
    heard_at_ = steady_clock::now();
    asked_ = false;
  } while (link_->wait(milliseconds{0}, -1));
  if (message) changes_.notify();
}

// An account that may not publish is told once; the nodes of other processes then find events when they poll.
void wake_line::send() {
  wanted_ = false;
  if (refused_) return;
  try {
    server_->call(arguments{"PUBLISH", channel_, ""}, "cannot wake other nodes");
  } catch (error const& e) {
    wanted_ = e.transient();
    if (e.transient()) throw;
    refused_ = true;
    remark(log_level::warning, std::string{e.what()} + ": they find new events when they poll");
  }
  pace_.sent(steady_clock::now());
}

// Only this object knows which hint is still unsent when the store closes, as in a process that writes and ends.
void wake_line::send_the_last() noexcept {
  try {
    if (wanted_) send();
  } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): the next poll finds what was written
  }
}

milliseconds wake_line::until_next() const {
  if (!wanted_) return silence / 2;
  return std::max(milliseconds{0}, std::chrono::ceil<milliseconds>(pace_.next() - steady_clock::now()));
}

void wake_line::drain() noexcept {
  char drained[64];
  while (::read(wake_[0], drained, sizeof drained) > 0) {
  }
}

// What is said meanwhile does not end it.
void wake_line::pause(milliseconds at_most) {
  auto const end = steady_clock::now() + at_most;
  while (!quit_) {
    auto const left = std::chrono::ceil<milliseconds>(end - steady_clock::now());
    if (left <= milliseconds{0}) return;
    ::pollfd ring{wake_[0], POLLIN, 0};
    ::poll(&ring, 1, static_cast<int>(left.count()));
    drain();
  }
}

void wake_line::reconnect() {
  core::reconnect_pause pause_between{milliseconds{100}, milliseconds{5000}};
  link_.reset();
  while (!quit_) {
    pause(pause_between.next());
    if (quit_) return;
    try {
      listen();
      changes_.notify();
      return remark(log_level::warning, "listening for messages of Redis again");
    } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): said once, when it was lost
    }
  }
}

void wake_line::check_silence() {
  auto const quiet = steady_clock::now() - heard_at_;
  if (asked_ && quiet > 2 * silence) throw error{errc::unavailable, "the server has fallen silent"};
  if (asked_ || quiet < silence) return;
  link_->add({"PING"});
  link_->flush();
  asked_ = true;
}

void wake_line::loop() noexcept {
  core::set_thread_name("outbox-listen");
  while (!quit_) {
    try {
      bool const heard = link_->wait(until_next(), wake_[0]);
      drain();
      if (heard) hear();
      if (quit_) break;
      if (wanted_ && until_next() == milliseconds{0}) send();
      check_silence();
    } catch (std::exception const& e) {
      remark(log_level::warning, std::string{"messages of Redis are off for now: "} + e.what());
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

}  // namespace outbox::inline v0::redis
