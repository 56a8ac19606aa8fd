#include <outbox/codec.hpp>

namespace outbox::inline v0::detail {

void use_aggregate_type(event_options& options, std::string_view own, std::string_view event_type) {
  auto& type = options.aggregate.type;
  if (type.empty()) type = own;
  if (own.empty() || type == own) return;
  throw error::about(errc::invalid_event, "aggregate.type",
                     "is '" + type + "', but the struct of event type '" + std::string{event_type} + "' names '" +
                         std::string{own} + "'");
}

error unencodable(std::string_view event_type, char const* why) {
  return error::about(errc::invalid_event, "payload", "of '" + std::string{event_type} + "' cannot be encoded: " + why);
}

permanent_failure undecodable(event const& e, char const* why) {
  return permanent_failure{"cannot decode the payload of '" + e.type() + "': " + why};
}

}  // namespace outbox::inline v0::detail
