// One thread keeps all requests under way; callers hand messages over by a short queue.
#include <curl/curl.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <outbox/error.hpp>
#include <outbox/result.hpp>
#include <outbox/sinks/webhook.hpp>
#include <thread>
#include <unordered_map>

#include "core/base/thread_name.hpp"
#include "sinks/webhook/endpoint.hpp"
#include "sinks/webhook/transfer.hpp"

namespace outbox::inline v0::webhook {
namespace {

using std::chrono::milliseconds;
using how = published::how;

// What libcurl may be late by on a machine that is busy.
constexpr milliseconds grace{1000};
constexpr int poll_ms = 1000;

struct free_multi {
  void operator()(CURLM* m) const noexcept { curl_multi_cleanup(m); }
};
using multi_handle = std::unique_ptr<CURLM, free_multi>;

multi_handle new_multi(endpoint const& to) {
  static CURLcode const ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  multi_handle m{ready == CURLE_OK ? curl_multi_init() : nullptr};
  if (!m) throw error{errc::unsupported, "libcurl cannot be used"};
  auto const most = static_cast<long>(to.max_in_flight);
  curl_multi_setopt(m.get(), CURLMOPT_MAXCONNECTS, most);
  curl_multi_setopt(m.get(), CURLMOPT_MAX_HOST_CONNECTIONS, most);
  return m;
}

// OpenSSL writes to a socket that the receiver may have closed. The signal would end the process.
void ignore_broken_pipes() noexcept {
  ::sigset_t pipes;
  ::sigemptyset(&pipes);
  ::sigaddset(&pipes, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipes, nullptr);
}

class webhook_sink final : public sink {
 public:
  explicit webhook_sink(options const& o)
      : to_{endpoint_of(o)}, multi_{new_multi(to_)}, thread_{[this](std::stop_token const& stop) { serve(stop); }} {}
  ~webhook_sink() override {
    {
      std::lock_guard const lock{mutex_};
      thread_.request_stop();
      curl_multi_wakeup(multi_.get());
    }
    thread_.join();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return to_.name; }

  // Before its own request a message waits for one other at most: the queue is no longer than what is under way.
  [[nodiscard]] milliseconds patience() const noexcept override { return 2 * to_.timeout + grace; }

  void publish(message m, publish_report report, steady_time give_up) noexcept override;
  bool flush(steady_time deadline) noexcept override;
  [[nodiscard]] sink_health health() const override;

 private:
  struct item {
    event what;
    header_list headers;
    publish_report report;
  };

  struct request {
    std::unique_ptr<transfer> curl;
    publish_report report;
  };

  [[nodiscard]] std::optional<published> hand_over(item& i, steady_time give_up);
  void serve(std::stop_token const& stop);
  void start_waiting();
  void start(item i) noexcept;
  void finish_ended();
  void turn_away_waiting(published const& why);
  void give_up_all() noexcept;
  void answer(publish_report& to, published p) noexcept;

  endpoint const to_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  ///< A message has left the queue, or has its report.
  std::deque<item> waiting_;
  std::uint64_t in_flight_ = 0, stored_ = 0, unsure_ = 0;
  std::string trouble_;          ///< The last one; empty again as soon as a message is stored.
  steady_time resting_until_{};  ///< The receiver asked to be left alone until then,
  std::string resting_reason_;   ///< by this answer.

  // Of the thread alone.
  std::unordered_map<CURL*, request> under_way_;
  multi_handle multi_;  ///< Others may wake it up.
  std::jthread thread_;
};

void webhook_sink::publish(message m, publish_report report, steady_time give_up) noexcept {
  {
    std::lock_guard const lock{mutex_};
    ++in_flight_;
  }
  std::optional<published> refused;
  try {
    item i{m.event, request_headers(m, to_.headers), std::move(report)};
    refused = hand_over(i, give_up);
    if (refused) answer(i.report, std::move(*refused));
  } catch (permanent_failure const& e) {
    answer(report, {how::rejected, e.what()});
  } catch (std::exception const& e) {
    answer(report, {how::failed, e.what()});
  }
}

// Returns what to report if the message was not taken.
std::optional<published> webhook_sink::hand_over(item& i, steady_time give_up) {
  std::unique_lock lock{mutex_};
  bool const room = changed_.wait_until(lock, give_up, [&] { return waiting_.size() < to_.max_in_flight; });
  auto const now = std::chrono::steady_clock::now();
  if (now < resting_until_) {
    return published{how::deferred, resting_reason_, std::chrono::ceil<milliseconds>(resting_until_ - now)};
  }
  if (!room) return published{how::unavailable, "too many messages wait for the receiver"};
  waiting_.push_back(std::move(i));
  lock.unlock();
  curl_multi_wakeup(multi_.get());
  return std::nullopt;
}

void webhook_sink::serve(std::stop_token const& stop) {
  core::set_thread_name("outbox-webhook");
  ignore_broken_pipes();
  while (!stop.stop_requested()) {
    start_waiting();
    int running = 0;
    curl_multi_perform(multi_.get(), &running);
    finish_ended();
    std::unique_lock lock{mutex_};
    bool const more = !waiting_.empty() && under_way_.size() < to_.max_in_flight;
    lock.unlock();
    if (!more) curl_multi_poll(multi_.get(), nullptr, 0, poll_ms, nullptr);
  }
  give_up_all();
  std::lock_guard const lock{mutex_};  // the destructor wakes it up under this lock
  multi_.reset();                      // here, where broken pipes are ignored
}

void webhook_sink::start_waiting() {
  while (under_way_.size() < to_.max_in_flight) {
    std::unique_lock lock{mutex_};
    if (waiting_.empty()) return;
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    changed_.notify_all();
    start(std::move(next));
  }
}

void webhook_sink::start(item i) noexcept {
  try {
    auto t = std::make_unique<transfer>(to_, i.what, i.headers);
    auto* const handle = t->handle();
    auto const at = under_way_.emplace(handle, request{std::move(t), std::move(i.report)}).first;
    if (curl_multi_add_handle(multi_.get(), handle) == CURLM_OK) return;
    answer(at->second.report, {how::failed, "libcurl did not take the request"});
    under_way_.erase(at);
  } catch (std::exception const& e) {
    answer(i.report, {how::failed, e.what()});
  }
}

void webhook_sink::finish_ended() {
  int left = 0;
  while (CURLMsg const* const m = curl_multi_info_read(multi_.get(), &left)) {
    if (m->msg != CURLMSG_DONE) continue;
    auto* const handle = m->easy_handle;
    auto const code = m->data.result;  // the message ends when the handle is removed
    auto const ended = under_way_.extract(handle);
    auto& [curl, report] = ended.mapped();
    auto outcome = curl->ended(code);
    curl_multi_remove_handle(multi_.get(), handle);
    if (outcome.what == how::unavailable || outcome.what == how::deferred) turn_away_waiting(outcome);
    answer(report, std::move(outcome));
  }
}

// What waits would fare as this one did.
void webhook_sink::turn_away_waiting(published const& why) {
  std::deque<item> all;
  {
    std::lock_guard const lock{mutex_};
    all.swap(waiting_);
    if (why.what == how::deferred) {
      resting_until_ = std::max(resting_until_, std::chrono::steady_clock::now() + why.after);
      resting_reason_ = why.reason;
    }
  }
  changed_.notify_all();
  for (auto& i : all) answer(i.report, why);
}

void webhook_sink::give_up_all() noexcept {
  for (auto& [handle, r] : under_way_) {
    auto outcome = r.curl->given_up();
    curl_multi_remove_handle(multi_.get(), handle);
    answer(r.report, std::move(outcome));
  }
  under_way_.clear();
  turn_away_waiting({how::unavailable, "the sink was closed"});
}

// A message counts as under way until its report was given: a caller of `flush` may rely on it.
void webhook_sink::answer(publish_report& to, published p) noexcept {
  auto const what = p.what;
  std::string trouble;
  try {
    trouble = p.reason;
  } catch (...) {
    trouble = "no memory";
  }
  to(std::move(p));
  std::lock_guard const lock{mutex_};
  --in_flight_;
  if (what == how::stored) ++stored_;
  if (what == how::unsure) ++unsure_;
  if (what != how::rejected) trouble_ = std::move(trouble);
  changed_.notify_all();
}

bool webhook_sink::flush(steady_time deadline) noexcept {
  std::unique_lock lock{mutex_};
  return changed_.wait_until(lock, deadline, [&] { return in_flight_ == 0; });
}

sink_health webhook_sink::health() const {
  std::lock_guard const lock{mutex_};
  return {trouble_.empty(), trouble_, in_flight_, stored_, unsure_};
}

}  // namespace

std::shared_ptr<sink> open(options o) { return std::make_shared<webhook_sink>(o); }

void check(options const& o) { static_cast<void>(endpoint_of(o)); }

}  // namespace outbox::inline v0::webhook
