#include <outbox/spi/store.hpp>
#include <outbox/store.hpp>

namespace outbox::inline v0 {

inspector::~inspector() = default;
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
    case node_mode::unknown: return "unknown";
  }
  return "?";
}

}  // namespace outbox::inline v0
