#include <outbox/error.hpp>
#include <outbox/listener.hpp>

#include "core/routes.hpp"

namespace outbox::inline v0 {

namespace detail {

core::route const* routes::find(std::string_view aggregate_type, std::string_view event_type) const noexcept {
  auto const type = by_type.find(event_type);
  if (type == by_type.end()) return nullptr;
  auto const exact = type->second.find(aggregate_type);
  if (exact != type->second.end()) return &exact->second;
  auto const any = type->second.find(std::string_view{});
  return any == type->second.end() ? nullptr : &any->second;
}

result undecodable(delivery const& d, char const* why) {
  return outbox::v0::dead{"cannot decode the payload of '" + d.event.type() + "': " + why};
}

}  // namespace detail

listeners::listeners() : routes_{std::make_unique<detail::routes>()} {}
listeners::listeners(listeners&&) noexcept = default;
listeners& listeners::operator=(listeners&&) noexcept = default;
listeners::~listeners() = default;

std::unique_ptr<detail::routes> listeners::release() noexcept { return std::move(routes_); }

listeners& listeners::add(std::string_view aggregate_type, std::string_view event_type,
                          std::unique_ptr<detail::handler> h, route_options options) {
  if (event_type.empty()) throw error::about(errc::invalid_option, "listeners", "has a route with an empty event type");
  if (options.timeout && (options.timeout->count() <= 0 || *options.timeout > std::chrono::hours{24})) {
    throw error::about(errc::invalid_option, "route.timeout", "must be positive and at most 24 hours");
  }
  auto& of_type = routes_->by_type[std::string{event_type}];
  if (of_type.contains(aggregate_type)) {
    throw error::about(errc::duplicate_route, "listeners",
                       "has two routes for event type '" + std::string{event_type} + "'" +
                           (aggregate_type.empty() ? std::string{" and every aggregate"}
                                                   : " and aggregate type '" + std::string{aggregate_type} + "'"));
  }
  std::string route_name = options.name.empty() ? std::string{event_type} : options.name;
  of_type.emplace(std::string{aggregate_type}, core::route{std::move(route_name), std::move(options), std::move(h)});
  return *this;
}

}  // namespace outbox::inline v0
