#include <algorithm>
#include <outbox/error.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/store.hpp>

namespace outbox::inline v0 {
namespace {

[[noreturn]] void unsupported(spi::store const& s, std::string_view function) {
  throw error{errc::unsupported,
              "a store of kind '" + std::string{s.capabilities().kind} + "' has no " + std::string{function} + "()"};
}

}  // namespace

inspector::~inspector() = default;
std::vector<parked_key> inspector::parked_keys(std::size_t /*limit*/) {
  throw error{errc::unsupported, "this store keeps no order per key"};
}
store::~store() = default;
spi::dispatch_lock::~dispatch_lock() = default;
spi::store::~store() = default;

std::string_view name(event_status s) noexcept {
  switch (s) {
    case event_status::created: return "NEW";
    case event_status::delivered: return "DONE";
    case event_status::retry: return "RETRY";
    case event_status::dead: return "DEAD";
  }
  return "?";
}

std::string_view name(node_mode m) noexcept {
  switch (m) {
    case node_mode::single_node: return "single_node";
    case node_mode::multi_node: return "multi_node";
    case node_mode::ordered: return "ordered";
    case node_mode::writer_only: return "writer_only";
    case node_mode::keyed: return "keyed";
    case node_mode::unknown: return "unknown";
  }
  return "?";
}

namespace spi {

std::string key_of(event const& e) {
  if (!e.ordering_key().empty()) return "=" + e.ordering_key();
  if (e.aggregate_id().empty()) return {};
  auto const& type = e.aggregate_type();
  auto const characters =
      std::ranges::count_if(type, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
  return std::to_string(characters) + ":" + type + e.aggregate_id();
}

std::string_view name(finding_level l) noexcept {
  switch (l) {
    case finding_level::passed: return "passed";
    case finding_level::note: return "note";
    case finding_level::warning: return "warning";
    case finding_level::problem: return "problem";
    case finding_level::skipped: return "skipped";
  }
  return "?";
}

std::vector<row_view> store::list(event_filter const& /*filter*/, list_order /*order*/, std::size_t /*limit*/) {
  unsupported(*this, "list");
}
std::uint64_t store::count(event_filter const& /*filter*/, std::uint64_t /*up_to*/) { unsupported(*this, "count"); }
std::vector<error_group> store::errors(event_filter const& /*filter*/, std::size_t /*limit*/) {
  unsupported(*this, "errors");
}
std::size_t store::cancel(event_filter const& /*filter*/, std::string_view /*reason*/, std::size_t /*limit*/) {
  unsupported(*this, "cancel");
}
std::size_t store::replay(event_filter const& /*filter*/, std::size_t /*limit*/) { unsupported(*this, "replay"); }
std::size_t store::discard(event_filter const& /*filter*/, std::size_t /*limit*/) { unsupported(*this, "discard"); }
std::size_t store::purge(event_filter const& /*filter*/, std::size_t /*limit*/) {
  unsupported(*this, "purge by filter");
}
std::int64_t store::begin_audit(audit_entry const& /*entry*/) { unsupported(*this, "begin_audit"); }
bool store::end_audit(std::int64_t /*id*/, std::uint64_t /*changed*/) { unsupported(*this, "end_audit"); }
std::vector<audit_entry> store::audit(std::size_t /*limit*/) { unsupported(*this, "audit"); }
std::vector<event_type_counts> store::event_types() { unsupported(*this, "event_types"); }
std::vector<event_type_counts> store::waiting_types(std::size_t /*rows*/) { unsupported(*this, "waiting_types"); }
table_overview store::overview(std::uint64_t /*limit*/) { unsupported(*this, "overview"); }
std::vector<parked_key> store::parked_keys(std::size_t /*limit*/) { unsupported(*this, "parked_keys"); }
std::size_t store::heal(std::size_t /*limit*/) { unsupported(*this, "heal"); }
std::vector<place> store::places(std::span<std::string const> /*ids*/) { unsupported(*this, "places"); }
void store::prepare_for_keys() {}
void store::set_keyed(bool /*keyed*/) { unsupported(*this, "set_keyed"); }
std::vector<finding> store::findings(finding_limits const& /*limits*/) { unsupported(*this, "findings"); }
subscription store::on_wait(std::function<void(std::chrono::nanoseconds)> /*callback*/) { return {}; }

}  // namespace spi
}  // namespace outbox::inline v0
