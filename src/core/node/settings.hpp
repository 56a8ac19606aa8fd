// A node's options after they were checked, the same for every mode.
#pragma once

#include <cstdint>
#include <memory>
#include <outbox/options.hpp>
#include <string>

#include "core/listeners/routes.hpp"

namespace outbox::inline v0::core {

/// What the engine decides by.
struct engine_settings {
  std::string incarnation;
  bool exclusive = false;  ///< Dispatches only under the dispatch lock.
  bool in_order = false;   ///< One event at a time, by `seq`.
  std::size_t workers = 4;
  poll_options poll{};
  retry_policy retry{};
  queue_options queue{};
  lease_options lease{};
  std::chrono::milliseconds listener_timeout{300'000};
  bool hot_path = true;
  outbox::v0::unroutable unroutable = outbox::v0::unroutable::dead;
  std::uint64_t seed = 0;  ///< Of all randomness in the node.
};

struct node_settings {
  std::shared_ptr<outbox::v0::store> store;
  std::unique_ptr<detail::routes> routes;
  node_mode mode = node_mode::multi_node;
  std::string name;
  engine_settings engine;
  event_limits limits{};
  std::chrono::milliseconds stop_timeout{5000};
  outbox::v0::stop_queued stop_queued = outbox::v0::stop_queued::deliver;
  log_function log;
  std::shared_ptr<outbox::v0::metrics> metrics;
  std::shared_ptr<outbox::v0::clock const> clock;
  std::optional<purge_options> purge;
  std::optional<age_purge_options> age_purge;  ///< writer_only
  std::shared_ptr<writer_hook> hook;
  std::vector<std::shared_ptr<interceptor>> interceptors;
};

/// Throw `error` (invalid_option) naming the field.
[[nodiscard]] node_settings settings_of(single_node_options options);
[[nodiscard]] node_settings settings_of(multi_node_options options);
[[nodiscard]] node_settings settings_of(ordered_options options);
[[nodiscard]] node_settings settings_of(writer_only_options options);
void validate(retry_policy const& retry, std::string const& field);

/// "host:pid:random", at most 80 characters: no two nodes ever have the same.
[[nodiscard]] std::string new_incarnation();

}  // namespace outbox::inline v0::core
