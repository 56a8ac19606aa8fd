#include "redis/link.hpp"

#include <poll.h>

#include <array>
#include <cassert>
#include <limits>
#include <new>
#include <optional>
#include <vector>

#include "redis/channel.hpp"
#include "redis/reader.hpp"

namespace outbox::inline v0::redis {
namespace {

// What a large batch needed is given back.
constexpr std::size_t kept_capacity = std::size_t{1} << 20U;

void append(std::string& to, word_list command) {
  check_size(command);
  assert(!command.empty() && command.size() <= std::numeric_limits<int>::max());
  std::vector<char const*> texts;
  std::vector<std::size_t> lengths;
  for (auto const word : command) {
    texts.push_back(word.data() != nullptr ? word.data() : "");
    lengths.push_back(word.size());
  }
  char* formatted = nullptr;
  int const size = redisFormatCommandArgv(&formatted, static_cast<int>(command.size()), texts.data(), lengths.data());
  if (size < 0) throw std::bad_alloc{};
  std::unique_ptr<char, decltype(&redisFreeCommand)> const owner{formatted, &redisFreeCommand};
  to.append(formatted, static_cast<std::size_t>(size));
}

}  // namespace

void check_size(word_list command) {
  constexpr std::size_t most = std::size_t{1} << 30U;
  std::size_t size = 0;
  for (auto const word : command) size += word.size();
  if (size > most) throw error{errc::store_failure, "more than 1 GiB cannot be sent to Redis at once"};
}

// The bytes of both directions, and what is known about the connection.
class link::stream {
 public:
  stream(address const& to, deadline until)
      : name_{shown(to)}, channel_{open_channel(to, until)}, reader_{make_reader()} {}

  void add(word_list command) {
    append(out_, command);
    ++owed_;
  }

  // A server that ends a connection may have said why. So a failed write is no error yet: `next()` reads first.
  void flush(deadline until) {
    std::string_view rest{out_};
    while (!rest.empty() && !deaf_ && !end_) {
      std::size_t taken = 0;
      try {
        taken = channel_->write(rest);
      } catch (error const&) {
        deaf_ = true;
      }
      rest.remove_prefix(taken);
      if (taken == 0 && !deaf_) make_room(until);
    }
    out_.clear();
    if (out_.capacity() > kept_capacity) out_ = {};
  }

  [[nodiscard]] answer next(deadline until) {
    flush(until);
    while (!parse()) {
      bool const got = pull();
      if (!got && wait_for(channel_->descriptor(), POLLIN, until) == woken::ready) continue;
      if (!parse() && is_over(until)) fail_late();  // even if it sends a byte now and then
    }
    if (owed_ > 0) --owed_;
    return std::move(ready_);
  }

  // The interrupt is looked at even while a server sends without an end.
  [[nodiscard]] bool wait(deadline until, int interrupt) {
    while (!parse()) {
      if (!pull()) {
        if (wait_for(channel_->descriptor(), POLLIN, until, interrupt) != woken::ready) return false;
      } else if (!parse()) {
        if (is_over(until) || wait_for(-1, 0, deadline{}, interrupt) == woken::interrupted) return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool alive() noexcept {
    try {
      return owed_ == 0 && !deaf_ && !pull() && !parse() && !in_an_answer(*reader_);
    } catch (std::exception const&) {
      return false;
    }
  }

  [[nodiscard]] bool idle() const noexcept { return owed_ == 0 || end_; }

 private:
  [[noreturn]] void fail(error e) {
    end_ = e;
    throw e;
  }
  [[noreturn]] void fail_late() { fail(error{errc::unavailable, "the server " + name_ + " did not answer in time"}); }

  // A proxy before the server may take no more commands before its answers are read.
  void make_room(deadline until) {
    bool const ready = wait_for(channel_->descriptor(), POLLIN | POLLOUT, until) == woken::ready;
    if (!ready || is_over(until)) fail_late();
    try {
      pull();
    } catch (error const&) {
      deaf_ = true;
    }
  }

  // Reads what is there. False if that is nothing.
  bool pull() {
    if (end_) throw *end_;
    std::array<char, 65'536> some;
    std::size_t n = 0;
    try {
      n = channel_->read(some);
    } catch (error const& e) {
      fail(e);
    }
    if (n == 0 && deaf_) fail(error{errc::unavailable, "the connection to the server " + name_ + " was lost"});
    if (n > 0 && redisReaderFeed(reader_.get(), some.data(), n) != REDIS_OK) fail_to_parse();
    return n > 0;
  }

  // True if an answer is ready.
  bool parse() {
    if (ready_.raw() != nullptr) return true;
    void* reply = nullptr;
    if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) fail_to_parse();
    ready_ = answer{static_cast<redisReply*>(reply)};
    return reply != nullptr;
  }
  [[noreturn]] void fail_to_parse() {
    bool const too_large = reader_->err == REDIS_ERR_OOM;
    fail(error{errc::unavailable,
               "the server " + name_ +
                   (too_large ? " sends an answer that is too large" : " does not speak the protocol of Redis")});
  }

  std::string name_;  ///< For messages.
  std::unique_ptr<channel> channel_;
  reader_handle reader_;
  std::string out_;           ///< What was not sent yet.
  answer ready_{nullptr};     ///< The next answer, if it was read already.
  std::size_t owed_ = 0;      ///< How many answers are still to come.
  bool deaf_ = false;         ///< The server takes no more. It may have said why.
  std::optional<error> end_;  ///< Why the connection is of no use any more.
};

namespace {

// A server that does not know the command may repeat it with its words, and the password is one of them.
error refused_account(answer_view a, address const& where, std::string const& doing) {
  bool const repeats = a.text().find("with args") != std::string_view::npos ||
                       (!where.password.empty() && a.text().find(where.password) != std::string_view::npos);
  if (!repeats) return error_of(a, doing);
  return error{error_of(a, doing).code(), doing + ": the server refuses the command AUTH"};
}

// HELLO answers with names and values in turn.
std::string_view fact(answer_view hello, std::string_view name) noexcept {
  for (std::size_t i = 0; i + 1 < hello.size(); i += 2) {
    if (hello[i].text() == name) return hello[i + 1].text();
  }
  return {};
}

// A server before Redis 6, or a proxy, may not know HELLO. No account needs a right for it.
bool may_be_ignored(answer_view hello) noexcept {
  auto const t = hello.text();
  return t.starts_with("ERR unknown command") || t.starts_with("ERR wrong number") || t.starts_with("NOPERM");
}

}  // namespace

link::link(address const& where, milliseconds connecting, milliseconds answering)
    : where_{where}, answering_{answering} {
  auto const until = deadline_after(connecting);
  stream_ = std::make_unique<stream>(where_, until);
  greet(until);
}

link::~link() = default;

// All in one round trip: if a command is refused, the answers behind it are not read, and the connection is closed.
void link::greet(std::chrono::steady_clock::time_point until) {
  auto const doing = "cannot connect to the server " + shown(where_);
  bool const has_account = !where_.user.empty() || !where_.password.empty();
  if (has_account && where_.user.empty()) add({"AUTH", where_.password});
  if (has_account && !where_.user.empty()) add({"AUTH", where_.user, where_.password});
  add({"HELLO", "2", "SETNAME", "outbox"});
  if (where_.database != 0) add({"SELECT", std::to_string(where_.database)});
  if (has_account) {
    if (auto const a = stream_->next(until); a.failed()) throw refused_account(a, where_, doing);
  }
  auto const hello = stream_->next(until);
  if (hello.failed() && !may_be_ignored(hello)) throw error_of(hello, doing);
  if (fact(hello, "mode") == "sentinel") {
    throw error{errc::store_failure, doing + ": it is a Sentinel, which is not supported: name the server itself"};
  }
  facts_ = {.version = std::string{fact(hello, "version")},
            .cluster = fact(hello, "mode") == "cluster",
            .replica = fact(hello, "role") == "replica"};
  if (where_.database == 0) return;
  if (auto const a = stream_->next(until); a.failed()) throw error_of(a, doing);
}

void link::add(word_list command) { stream_->add(command); }

void link::flush() { stream_->flush(deadline_after(answering_)); }

answer link::next() { return stream_->next(deadline_after(answering_)); }

bool link::wait(milliseconds at_most, int interrupt) {
  flush();
  return stream_->wait(at_most.count() <= 0 ? deadline{} : deadline_after(at_most), interrupt);
}

answer link::call(word_list command) {
  assert(stream_->idle());  // else the answer of another command would be taken for that of this one
  add(command);
  auto a = next();
  if (a.failed()) throw error_of(a, "cannot run " + std::string{command.front()});
  return a;
}

bool link::alive() noexcept { return stream_->alive(); }

}  // namespace outbox::inline v0::redis
