#include "redis/dispatch_lock.hpp"

#include <outbox/error.hpp>

#include "redis/pieces.hpp"

namespace outbox::inline v0::redis {

std::unique_ptr<leased_lock> leased_lock::take(std::shared_ptr<server> where, std::shared_ptr<clock const> c,
                                               std::string_view incarnation, milliseconds lease) {
  auto const until = c->steady() + lease;
  auto const fence =
      where->run(all_scripts().lock, arguments{"take", incarnation, lease}, "cannot take the dispatch lock").number();
  if (fence == 0) return nullptr;
  return std::unique_ptr<leased_lock>{
      new leased_lock{std::move(where), std::move(c), incarnation, lease, fence, until}};
}

leased_lock::leased_lock(std::shared_ptr<server> where, std::shared_ptr<clock const> c, std::string_view incarnation,
                         milliseconds lease, std::int64_t fence, steady_time until)
    : server_{std::move(where)},
      clock_{std::move(c)},
      incarnation_{incarnation},
      lease_{lease},
      fence_{fence},
      until_{until} {}

leased_lock::~leased_lock() {
  if (!held()) return;
  try {
    server_->run(all_scripts().lock, arguments{"give_back", incarnation_, fence_}, "cannot give back the lock");
  } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): it ends by itself
  }
}

bool leased_lock::held() const noexcept { return owner_ == ::getpid() && clock_->steady() < until_.load(); }

bool leased_lock::renew() {
  auto const until = clock_->steady() + lease_;
  arguments const args{"renew", incarnation_, fence_, lease_};
  bool const kept = server_->run(all_scripts().lock, args, "cannot renew the dispatch lock").number() == 1;
  until_ = kept ? until : steady_time{};
  return kept;
}

std::size_t leased_lock::expire_others() {
  return in_pieces([&](std::string const& last, std::string const& score) {
    arguments const args{"expire", incarnation_, fence_, piece, last, score};
    auto a = server_->run(all_scripts().lock, args, "cannot end the leases of other nodes");
    if (a[0].number() >= 0) return a;
    until_ = steady_time{};
    throw error{errc::unavailable, "the dispatch lock was lost"};
  });
}

}  // namespace outbox::inline v0::redis
