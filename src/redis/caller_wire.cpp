#include "redis/caller_wire.hpp"

#include <outbox/error.hpp>

namespace outbox::inline v0::redis {
namespace {

constexpr milliseconds patience{10'000};

[[noreturn]] void broken(redisContext const* c) {
  throw error{errc::unavailable, "the connection of hiredis is broken: " + std::string{c->errstr}};
}

}  // namespace

session::session(address const& where) : line_{where, patience, patience} {}

void session::occupy() {
  if (busy_) throw error{errc::no_transaction, "the connection has a transaction already"};
  if (!line_.alive()) throw error{errc::unavailable, "the connection to Redis is broken"};
  busy_ = true;
}

hiredis_wire::hiredis_wire(redisContext* c) : context_{c} {
  if (c == nullptr) throw error{errc::unavailable, "there is no connection of hiredis"};
  if (c->err != 0) broken(c);
  if ((c->flags & REDIS_BLOCK) == 0) {
    throw error{errc::unsupported, "the connection of hiredis does not block: a transaction needs one that does"};
  }
}

void hiredis_wire::add(word_list command) {
  check_size(command);
  std::vector<char const*> texts;
  std::vector<std::size_t> sizes;
  for (auto const& w : command) {
    texts.push_back(w.data() == nullptr ? "" : w.data());
    sizes.push_back(w.size());
  }
  if (redisAppendCommandArgv(context_, static_cast<int>(texts.size()), texts.data(), sizes.data()) != REDIS_OK) {
    broken(context_);
  }
}

answer hiredis_wire::next() {
  void* reply = nullptr;
  if (redisGetReply(context_, &reply) != REDIS_OK) broken(context_);
  return answer{static_cast<redisReply*>(reply)};
}

}  // namespace outbox::inline v0::redis
