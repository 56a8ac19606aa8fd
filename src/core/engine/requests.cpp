#include "core/engine/requests.hpp"

#include <exception>

namespace outbox::inline v0::core {
namespace {

template <class Reply, class F>
Reply reply_of(F&& call) noexcept {
  Reply reply;
  try {
    call(reply);
  } catch (error const& e) {
    reply.failure.emplace(e);
  } catch (std::exception const& e) {
    reply.failure.emplace(errc::store_failure, e.what());
  } catch (...) {
    reply.failure.emplace(errc::store_failure, "the store threw something that is not an exception");
  }
  return reply;
}

}  // namespace

poll_reply perform(spi::store& s, poll_request const& request, std::string const& incarnation,
                   std::weak_ptr<dispatch_lock> const& lock) noexcept {
  return reply_of<poll_reply>([&](poll_reply& reply) {
    if (auto const* const release = std::get_if<release_request>(&request.request)) {
      s.release(release->tokens, release->lease);
    } else if (auto const* const wanted = std::get_if<lock_request>(&request.request)) {
      reply.value = s.try_dispatch_lock(incarnation, wanted->lease);
    } else if (std::holds_alternative<expire_request>(request.request)) {
      auto const held = lock.lock();
      if (!held) throw error{errc::unavailable, "the dispatch lock was lost"};
      reply.value = held->expire_others();
    } else {
      reply.value = s.claim(std::get<claim_request>(request.request));
    }
  });
}

settle_reply perform(spi::store& s, settle_request const& request) noexcept {
  return reply_of<settle_reply>([&](settle_reply& reply) {
    auto settled = s.settle(request.items);
    reply.applied = std::move(settled.applied);
    reply.unblocked = settled.unblocked;
  });
}

place_reply perform(spi::store& s, place_request const& request) noexcept {
  return reply_of<place_reply>([&](place_reply& reply) { reply.places = s.places(request.ids); });
}

renew_reply perform(spi::store& s, renew_request const& request, node_row const& self,
                    std::weak_ptr<dispatch_lock> const& lock) noexcept {
  bool lost = false;
  auto const locked = reply_of<renew_reply>([&](renew_reply&) {
    if (s.capabilities().dispatch_lock != lock_kind::lease) return;
    if (auto const held = lock.lock()) lost = !held->renew();
  });
  auto reply = reply_of<renew_reply>([&](renew_reply& r) {
    if (request.rows.empty()) return;
    r.kept = s.renew(request.rows, self.lease);
    r.commits = 1;
  });
  if (lost) reply.lost_lock = lock;
  if (reply.failure) return reply;
  reply.rest = locked.failure;
  // Each for itself. The registry is for tools: that it fails must neither make the node think that it has lost its
  // leases, nor keep it from hearing of a pause.
  auto const also = [&](auto&& f) {
    auto one = reply_of<renew_reply>([&](renew_reply&) { f(); });
    if (one.failure && !reply.rest) reply.rest = std::move(one.failure);
  };
  also([&] {
    if (!request.doubts.empty()) {
      s.release(request.doubts, self.lease);
      reply.commits += 1;
    }
    reply.doubts_released = true;
  });
  also([&] {
    s.heartbeat(self);
    reply.commits += 1;
  });
  also([&] { reply.settings = s.settings(); });
  also([&] {
    if (request.heal == 0) return;
    reply.healed = s.heal(request.heal);
    reply.commits += *reply.healed > 0 ? 1U : 0U;
  });
  return reply;
}

}  // namespace outbox::inline v0::core
