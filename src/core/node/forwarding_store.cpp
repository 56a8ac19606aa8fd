#include <outbox/error.hpp>
#include <outbox/spi/forwarding_store.hpp>
#include <utility>

namespace outbox::inline v0::spi {

forwarding_store::forwarding_store(std::shared_ptr<outbox::v0::store> behind) : kept_{std::move(behind)} {
  if (!kept_) throw error::about(errc::invalid_option, "behind", "is required");
  to_ = &kept_->backend();
}

forwarding_store::~forwarding_store() = default;

store_capabilities forwarding_store::capabilities() const noexcept { return to_->capabilities(); }
inspector& forwarding_store::inspect() { return to_->inspect(); }

void forwarding_store::insert(transaction_ref tx, std::span<insertion const> rows) { to_->insert(tx, rows); }
claim_reply forwarding_store::claim(claim_request const& request) { return to_->claim(request); }
std::vector<bool> forwarding_store::settle(std::span<settlement const> items) { return to_->settle(items); }
std::vector<bool> forwarding_store::renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) {
  return to_->renew(rows, lease);
}
std::size_t forwarding_store::release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) {
  return to_->release(tokens, lease);
}

std::unique_ptr<dispatch_lock> forwarding_store::try_dispatch_lock(std::string_view incarnation) {
  return to_->try_dispatch_lock(incarnation);
}
void forwarding_store::heartbeat(node_row const& node) { to_->heartbeat(node); }
void forwarding_store::retire(std::string_view incarnation) { to_->retire(incarnation); }
std::vector<route_pause> forwarding_store::pauses() { return to_->pauses(); }
bool forwarding_store::pause(route_pause const& what) { return to_->pause(what); }
bool forwarding_store::resume(route_pause const& what) { return to_->resume(what); }
std::size_t forwarding_store::ignored_pauses() noexcept { return to_->ignored_pauses(); }

std::size_t forwarding_store::purge(purge_request const& request) { return to_->purge(request); }
std::size_t forwarding_store::purge_by_age(age_purge_request const& request) { return to_->purge_by_age(request); }
std::vector<dead_event> forwarding_store::dead(dead_filter const& filter, std::size_t limit) {
  return to_->dead(filter, limit);
}
std::uint64_t forwarding_store::count_dead(dead_filter const& filter) { return to_->count_dead(filter); }
bool forwarding_store::replay(std::string_view id) { return to_->replay(id); }
std::size_t forwarding_store::replay_some(dead_filter const& filter, instant died_by, std::size_t limit) {
  return to_->replay_some(filter, died_by, limit);
}

instant forwarding_store::now() { return to_->now(); }
std::uint64_t forwarding_store::change_counter() noexcept { return to_->change_counter(); }
void forwarding_store::hint() noexcept { to_->hint(); }

}  // namespace outbox::inline v0::spi
