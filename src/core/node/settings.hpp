// A node's options after they were checked, the same for every mode.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <outbox/options.hpp>
#include <string>
#include <thread>

#include "core/listeners/routes.hpp"

namespace outbox::inline v0::core {

/// The options with defaults filled in, and what follows from the mode. `listeners` is empty: `routes` has them.
struct node_settings : node_options {
  node_settings() { poll.every = store_capabilities{}.poll_every; }

  node_mode mode = node_mode::multi_node;
  std::string incarnation;
  bool exclusive = false;                                   ///< Dispatches only under the dispatch lock.
  bool in_order = false;                                    ///< One event at a time, by `seq`.
  bool keyed = false;                                       ///< One event of a key at a time, by `seq`.
  outbox::v0::on_dead on_dead = outbox::v0::on_dead::park;  ///< With `keyed`.
  std::uint64_t seed = 0;                                   ///< Of all randomness in the node.
  std::unique_ptr<detail::routes> routes;
  std::optional<age_purge_options> age_purge;  ///< Of a writer_only node.

  /// Starts a thread of the node. Throws std::system_error if the system has no more. Tests replace it.
  std::function<std::thread(std::function<void()>)> new_thread = [](std::function<void()> body) {
    return std::thread{std::move(body)};
  };
};

/// These throw `error` (invalid_option) that names the field. `mode` is single_node or multi_node.
[[nodiscard]] node_settings settings_of(node_options options, node_mode mode);
[[nodiscard]] node_settings settings_of(ordered_options options);
[[nodiscard]] node_settings settings_of(keyed_options options);
[[nodiscard]] node_settings settings_of(writer_only_options options);
void validate(retry_policy const& retry, std::string const& field);

/// "host:pid:random", at most 80 characters: no two nodes ever have the same.
[[nodiscard]] std::string new_incarnation();

}  // namespace outbox::inline v0::core
