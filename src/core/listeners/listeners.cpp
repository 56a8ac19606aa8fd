#include <outbox/error.hpp>
#include <outbox/listener.hpp>

#include "core/events/names_check.hpp"
#include "core/listeners/routes.hpp"

namespace outbox::inline v0 {

detail::call::~call() = default;
detail::handler::~handler() = default;
detail::batch_handler::~batch_handler() = default;
detail::answer_slot::~answer_slot() = default;

result core::result_of_current_exception() {
  try {
    throw;
  } catch (permanent_failure const& e) {
    return dead{e.what()};
  } catch (failure const& e) {
    return failed{e.what(), e.after()};
  } catch (std::exception const& e) {
    return failed{e.what(), {}};
  } catch (...) {
    return failed{"the listener threw something that is not an exception", {}};
  }
}

result core::dropped_completion() noexcept {
  try {
    return failed{"the completion was dropped without an answer"};
  } catch (...) {
    return failed{};
  }
}

namespace detail {
namespace {

[[noreturn]] void refuse(std::string const& field, std::string const& problem) {
  throw error::about(errc::invalid_option, field, problem);
}

}  // namespace

core::route const* routes::find(std::string_view aggregate_type, std::string_view event_type) const noexcept {
  auto const type = by_type.find(event_type);
  if (type == by_type.end()) return any.get();
  auto const exact = type->second.find(aggregate_type);
  if (exact != type->second.end()) return &exact->second;
  auto const of_type = type->second.find(std::string_view{});
  return of_type == type->second.end() ? any.get() : &of_type->second;
}

void routes::check_options(core::route const& r) {
  auto const& o = r.options;
  if (o.timeout && (o.timeout->count() < 0 || *o.timeout > std::chrono::hours{24})) {
    refuse("route.timeout", "must be 0, for no limit, or at most 24 hours");
  }
  if (o.max_in_flight && *o.max_in_flight == 0) refuse("route.max_in_flight", "must be at least 1");
  if (r.max_batch < 1 || r.max_batch > 10'000) refuse("route.max_batch", "must be 1 to 10000");
}

void routes::add(std::string_view aggregate_type, std::string_view event_type, core::route r) {
  if (event_type.empty()) refuse("listeners", "has a route with an empty event type");
  core::check_name(errc::invalid_option, "route.event_type", event_type, core::width::event_type);
  core::check_name(errc::invalid_option, "route.aggregate_type", aggregate_type, core::width::aggregate_type);
  check_options(r);
  auto& of_type = by_type[std::string{event_type}];
  if (of_type.contains(aggregate_type)) {
    throw error::about(errc::duplicate_route, "listeners",
                       "has two routes for event type '" + std::string{event_type} + "'" +
                           (aggregate_type.empty() ? std::string{" and every aggregate"}
                                                   : " and aggregate type '" + std::string{aggregate_type} + "'"));
  }
  r.name = r.options.name.empty() ? std::string{event_type} : r.options.name;
  r.event_type = event_type;
  r.aggregate_type = aggregate_type;
  r.index = count++;
  of_type.emplace(std::string{aggregate_type}, std::move(r));
}

void routes::add_any(core::route r) {
  check_options(r);
  if (r.options.max_in_flight) refuse("route.max_in_flight", "is not for the route of every event type");
  if (any) throw error::about(errc::duplicate_route, "listeners", "has two routes for every event type");
  r.name = r.options.name.empty() ? "*" : r.options.name;
  r.index = count++;
  any = std::make_unique<core::route>(std::move(r));
}

void routes::finish() {
  for (auto const& [type, by_aggregate] : by_type) {
    for (auto const& [aggregate, r] : by_aggregate) {
      // "Every aggregate" beside others cannot be left out by name without them.
      bool const apart = !aggregate.empty() || by_aggregate.size() == 1;
      if (r.options.max_in_flight && apart) limited.push_back(&r);
    }
  }
}

void routes::drop_handlers() noexcept {
  for (auto& [type, by_aggregate] : by_type) {
    for (auto& [aggregate, r] : by_aggregate) {
      r.handler.reset();
      r.batch.reset();
    }
  }
  if (any) any->handler.reset();
}

failure wrong_number_of_results(std::size_t given, std::size_t wanted) {
  return failure{"the listener gave " + std::to_string(given) + " results for " + std::to_string(wanted) + " events"};
}

}  // namespace detail

namespace {

void refuse_empty(bool empty, std::string_view name, std::string_view event_type) {
  if (!empty) return;
  throw error::about(errc::invalid_option, "listeners",
                     "has an empty function for route '" + std::string{name.empty() ? event_type : name} + "'");
}

void refuse_max_batch(route_options const& options) {
  if (!options.max_batch) return;
  throw error::about(errc::invalid_option, "max_batch", "is for on_batch: this listener takes one event at a time");
}

}  // namespace

listeners::listeners() : routes_{std::make_unique<detail::routes>()} {}
listeners::listeners(listeners&&) noexcept = default;
listeners& listeners::operator=(listeners&&) noexcept = default;
listeners::~listeners() = default;

std::unique_ptr<detail::routes> listeners::release() {
  if (routes_) routes_->finish();
  return std::move(routes_);
}

listeners& listeners::on(type_name event_type, fan_out<> several, route_options options) {
  return add({}, event_type.view(), several.release(), std::move(options));
}

listeners& listeners::on(type_name aggregate_type, type_name event_type, fan_out<> several, route_options options) {
  return add(aggregate_type.view(), event_type.view(), several.release(), std::move(options));
}

listeners& listeners::add_any(std::unique_ptr<detail::handler> h, route_options options) {
  refuse_empty(!h, options.name, "*");
  refuse_max_batch(options);
  core::route r;
  r.options = std::move(options);
  r.handler = std::move(h);
  routes().add_any(std::move(r));
  return *this;
}

detail::routes& listeners::routes() {
  if (!routes_) throw error{errc::lifecycle, "these listeners were moved from"};
  return *routes_;
}

listeners& listeners::add(std::string_view aggregate_type, std::string_view event_type,
                          std::unique_ptr<detail::handler> h, route_options options) {
  refuse_empty(!h, options.name, event_type);
  refuse_max_batch(options);
  core::route r;
  r.options = std::move(options);
  r.handler = std::move(h);
  routes().add(aggregate_type, event_type, std::move(r));
  return *this;
}

listeners& listeners::add_batch(std::string_view aggregate_type, std::string_view event_type,
                                std::unique_ptr<detail::batch_handler> h, route_options options) {
  refuse_empty(!h, options.name, event_type);
  core::route r;
  r.max_batch = options.max_batch.value_or(100);
  r.options = std::move(options);
  r.batch = std::move(h);
  routes().add(aggregate_type, event_type, std::move(r));
  return *this;
}

}  // namespace outbox::inline v0
