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

void forwarding_store::insert(transaction_ref tx, std::span<insertion const> rows,
                              std::shared_ptr<insert_receipt> const& receipt) {
  to_->insert(tx, rows, receipt);
}
claim_reply forwarding_store::claim(claim_request const& request) { return to_->claim(request); }
settle_reply forwarding_store::settle(std::span<settlement const> items) { return to_->settle(items); }
std::vector<bool> forwarding_store::renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) {
  return to_->renew(rows, lease);
}
std::size_t forwarding_store::release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) {
  return to_->release(tokens, lease);
}

std::unique_ptr<dispatch_lock> forwarding_store::try_dispatch_lock(std::string_view incarnation,
                                                                   std::chrono::milliseconds lease) {
  return to_->try_dispatch_lock(incarnation, lease);
}
void forwarding_store::heartbeat(node_row const& node) { to_->heartbeat(node); }
void forwarding_store::retire(std::string_view incarnation) { to_->retire(incarnation); }
table_settings forwarding_store::settings() { return to_->settings(); }
bool forwarding_store::pause(route_pause const& what) { return to_->pause(what); }
bool forwarding_store::resume(route_pause const& what) { return to_->resume(what); }

std::size_t forwarding_store::purge(purge_request const& request) { return to_->purge(request); }
std::size_t forwarding_store::purge_by_age(age_purge_request const& request) { return to_->purge_by_age(request); }
std::vector<row_view> forwarding_store::list(event_filter const& filter, list_order order, std::size_t limit) {
  return to_->list(filter, order, limit);
}
std::uint64_t forwarding_store::count(event_filter const& filter, std::uint64_t up_to) {
  return to_->count(filter, up_to);
}
std::vector<error_group> forwarding_store::errors(event_filter const& filter, std::size_t limit) {
  return to_->errors(filter, limit);
}
std::size_t forwarding_store::cancel(event_filter const& filter, std::string_view reason, std::size_t limit) {
  return to_->cancel(filter, reason, limit);
}
std::size_t forwarding_store::replay(event_filter const& filter, std::size_t limit) {
  return to_->replay(filter, limit);
}
std::size_t forwarding_store::discard(event_filter const& filter, std::size_t limit) {
  return to_->discard(filter, limit);
}
std::size_t forwarding_store::purge(event_filter const& filter, std::size_t limit) { return to_->purge(filter, limit); }
std::int64_t forwarding_store::begin_audit(audit_entry const& entry) { return to_->begin_audit(entry); }
bool forwarding_store::end_audit(std::int64_t id, std::uint64_t changed) { return to_->end_audit(id, changed); }
std::vector<audit_entry> forwarding_store::audit(std::size_t limit) { return to_->audit(limit); }
std::vector<event_type_counts> forwarding_store::event_types() { return to_->event_types(); }
std::vector<event_type_counts> forwarding_store::waiting_types(std::size_t rows) { return to_->waiting_types(rows); }
table_overview forwarding_store::overview(std::uint64_t limit) { return to_->overview(limit); }
std::vector<parked_key> forwarding_store::parked_keys(std::size_t limit) { return to_->parked_keys(limit); }
std::size_t forwarding_store::heal(std::size_t limit) { return to_->heal(limit); }
std::vector<place> forwarding_store::places(std::span<std::string const> ids) { return to_->places(ids); }
void forwarding_store::prepare_for_keys() { to_->prepare_for_keys(); }
void forwarding_store::set_keyed(bool keyed) { to_->set_keyed(keyed); }
std::vector<finding> forwarding_store::findings(finding_limits const& limits) { return to_->findings(limits); }

instant forwarding_store::now() { return to_->now(); }
subscription forwarding_store::on_change(std::function<void()> callback) { return to_->on_change(std::move(callback)); }
subscription forwarding_store::on_wait(std::function<void(std::chrono::nanoseconds)> callback) {
  return to_->on_wait(std::move(callback));
}
void forwarding_store::hint() noexcept { to_->hint(); }

}  // namespace outbox::inline v0::spi
