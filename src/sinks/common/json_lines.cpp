// One thread writes what waits, flushes once, and reports.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <outbox/error.hpp>
#include <outbox/sinks/json_lines.hpp>
#include <system_error>
#include <thread>
#include <utility>

namespace outbox::inline v0::json_lines {
namespace {

using std::chrono::milliseconds;

std::string last_error() { return std::generic_category().message(errno); }

class json_lines_sink final : public sink {
 public:
  explicit json_lines_sink(options o) : options_{std::move(o)} {
    to_stdout_ = options_.path == "-";
    fd_ = to_stdout_ ? STDOUT_FILENO : ::open(options_.path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (fd_ < 0)
      throw error::about(errc::invalid_option, "path", "'" + options_.path + "' cannot be opened: " + last_error());
    struct stat s {};
    regular_ = ::fstat(fd_, &s) == 0 && S_ISREG(s.st_mode);
    if (regular_ && !to_stdout_) end_half_a_line(s.st_size);
    thread_ = std::jthread{[this](std::stop_token const& stop) { serve(stop); }};
  }
  ~json_lines_sink() override {
    thread_.request_stop();
    thread_.join();
    if (!to_stdout_) ::close(fd_);
  }

  [[nodiscard]] std::string_view name() const noexcept override { return options_.name; }
  [[nodiscard]] milliseconds patience() const noexcept override { return std::chrono::seconds{10}; }

  void publish(message m, publish_report report, steady_time /*give_up*/) noexcept override {
    try {
      auto line = line_of(m);
      std::lock_guard const lock{mutex_};
      waiting_.push_back({std::move(line), std::move(report)});
      ++in_flight_;
      changed_.notify_all();
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory; the report says so when it is destroyed
    }
  }

  bool flush(steady_time deadline) noexcept override {
    std::unique_lock lock{mutex_};
    return changed_.wait_until(lock, deadline, [&] { return in_flight_ == 0; });
  }

  [[nodiscard]] sink_health health() const override {
    std::lock_guard const lock{mutex_};
    return {trouble_.empty(), trouble_, in_flight_, stored_, unsure_};
  }

 private:
  struct item {
    std::string line;
    publish_report report;
  };

  void end_half_a_line(off_t size) const {
    char last = '\n';
    if (size == 0 || ::pread(fd_, &last, 1, size - 1) != 1 || last == '\n') return;
    if (::write(fd_, "\n", 1) != 1)
      throw error::about(errc::invalid_option, "path", "cannot be written to: " + last_error());
  }

  void serve(std::stop_token const& stop) {
    std::vector<item> some;
    while (true) {
      {
        std::unique_lock lock{mutex_};
        changed_.wait(lock, stop, [&] { return !waiting_.empty(); });
        if (waiting_.empty()) return;
        some.swap(waiting_);
      }
      auto const outcome = write_all(some);
      for (auto& i : some) i.report(outcome);
      note(some.size(), outcome);
      some.clear();
    }
  }

  void note(std::size_t lines, published const& outcome) {
    std::lock_guard const lock{mutex_};
    in_flight_ -= lines;
    if (outcome.what == published::how::stored) stored_ += lines;
    if (outcome.what == published::how::unsure) unsure_ += lines;
    trouble_ = outcome.reason;
    changed_.notify_all();
  }

  [[nodiscard]] published write_all(std::vector<item> const& some) {
    std::string text = std::exchange(half_a_line_, false) ? "\n" : "";
    for (auto const& i : some) text += i.line;
    auto outcome = append(text);
    if (outcome.what != published::how::stored) return outcome;
    if (!options_.sync || !regular_ || ::fdatasync(fd_) == 0) return outcome;
    return {published::how::unsure, "the lines may not be on the disk: " + last_error()};
  }

  // Several processes may append to one file. They share its lock, except to take lines back.
  [[nodiscard]] published append(std::string const& text) {
    if (regular_) ::flock(fd_, LOCK_SH);
    auto outcome = write(text);
    if (regular_) ::flock(fd_, LOCK_UN);
    return outcome;
  }

  [[nodiscard]] published write(std::string const& text) {
    struct stat before {};
    if (regular_) ::fstat(fd_, &before);
    std::size_t at = 0;
    while (at < text.size()) {
      auto const n = ::write(fd_, text.data() + at, text.size() - at);
      if (n >= 0) {
        at += static_cast<std::size_t>(n);
      } else if (errno != EINTR) {
        return cannot_write(before.st_size, at);
      }
    }
    return {published::how::stored, {}};
  }

  [[nodiscard]] published cannot_write(off_t before, std::size_t written) {
    auto reason = "cannot write: " + last_error();
    if (written == 0 || (regular_ && take_back(before, written))) {
      return {published::how::unavailable, std::move(reason)};
    }
    half_a_line_ = true;
    return {published::how::unsure, std::move(reason)};
  }

  // So that no line is there twice. Lines that another process has appended since then stay, and so do ours.
  [[nodiscard]] bool take_back(off_t before, std::size_t written) const {
    ::flock(fd_, LOCK_EX);
    struct stat now {};
    return ::fstat(fd_, &now) == 0 && now.st_size == before + static_cast<off_t>(written) &&
           ::ftruncate(fd_, before) == 0;
  }

  options const options_;
  bool to_stdout_ = false;
  bool regular_ = false;
  bool half_a_line_ = false;  ///< The last write ended within a line, which could not be taken back.
  int fd_ = -1;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;  ///< A message waits, or has its report.
  std::vector<item> waiting_;
  std::uint64_t in_flight_ = 0, stored_ = 0, unsure_ = 0;
  std::string trouble_;
  std::jthread thread_;
};

}  // namespace

std::shared_ptr<sink> open(options o) { return std::make_shared<json_lines_sink>(std::move(o)); }

}  // namespace outbox::inline v0::json_lines
