// What one would write against hiredis without this library: the same scripts, called by their names.
#pragma once

#include <hiredis/hiredis.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/redis_server.hpp"

namespace bench::re {

struct close_context {
  void operator()(redisContext* c) const noexcept { redisFree(c); }
};
struct free_reply {
  void operator()(redisReply* r) const noexcept { freeReplyObject(r); }
};
using reply = std::unique_ptr<redisReply, free_reply>;

/// `appendfsync` of the server: when the append-only file goes to the disk.
enum class fsync { everysec, always };

/// An outbox in a database of its own, on a server of the benchmark's own.
struct place {
  fsync when = fsync::everysec;
  int database = 0;
  [[nodiscard]] std::string url() const;
};

/// All keys of an outbox begin with it.
inline constexpr std::string_view prefix = "{outbox}:";

/// The words of one command. The texts must outlive it.
class words {
 public:
  void clear() {
    texts_.clear();
    lengths_.clear();
  }
  template <class... Texts>
  words& add(Texts const&... more) {
    (one(std::string_view{more}), ...);
    return *this;
  }
  [[nodiscard]] int count() const noexcept { return static_cast<int>(texts_.size()); }
  [[nodiscard]] char const** texts() noexcept { return texts_.data(); }
  [[nodiscard]] std::size_t const* lengths() const noexcept { return lengths_.data(); }

 private:
  void one(std::string_view text) {
    texts_.push_back(text.data());
    lengths_.push_back(text.size());
  }
  std::vector<char const*> texts_;
  std::vector<std::size_t> lengths_;
};

/// A connection; every failure throws. The server knows the scripts once one of these was made.
class client {
 public:
  explicit client(place const& p);
  [[nodiscard]] reply run(words& w) const;
  /// A command whose words have no spaces in them. Returns its answer if that is a text or a number.
  std::string ask(std::string const& command) const;

 private:
  std::unique_ptr<redisContext, close_context> c_;
};

/// Starts the server with the first call: on a real disk, with an append-only file that only `new_place()` rewrites.
[[nodiscard]] outbox::redis_server& server(fsync when);

/// As in "7.0.15".
[[nodiscard]] std::string server_version();

/// A new and empty outbox, in this database of the server. Those of other databases stay.
[[nodiscard]] place new_place(fsync when, int database);

/// Inserts events: one script each.
class writer_by_hand {
 public:
  explicit writer_by_hand(place const& p) : c_{p} {}
  /// Returns the number of the event. With a token, the event has an owner.
  std::string write(std::string const& id, std::string const& payload, std::string_view token = "");

 private:
  client c_;
  words w_;
};

/// What is known of an event that is to be settled.
struct taken {
  std::string id, number;
};

/// Claims events and settles them, each by one script: they are deleted then.
class drainer_by_hand {
 public:
  static constexpr std::string_view token = "by hand/1";

  explicit drainer_by_hand(place const& p) : c_{p} {}
  [[nodiscard]] std::size_t drain_some(std::size_t limit);
  void settle(std::vector<taken> const& events);

 private:
  client c_;
  words w_;
};

/// Rows that a script of the benchmark writes, through the text for scripts of applications.
struct rows_to_fill {
  std::string id = "due";             ///< Their ids begin with it.
  int count = 0;                      ///< Of rows.
  std::string type = "order.placed";  ///< Of the events.
  long long inserted_ago = 0;         ///< In seconds: the first row. Each row behind it is a millisecond younger.
  long long delay = 0;                ///< In seconds.
};
void fill(place const& p, rows_to_fill const& what, std::string const& payload);

}  // namespace bench::re
