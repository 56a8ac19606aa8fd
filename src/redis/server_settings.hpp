// What the server says about itself, and what follows from it for an outbox.
#pragma once

#include <cstdint>
#include <optional>
#include <outbox/spi/store.hpp>
#include <string>
#include <vector>

#include "redis/server.hpp"

namespace outbox::inline v0::redis {

/// What INFO and CONFIG GET tell. An account may lack the right to ask: then fields are empty.
struct server_settings {
  std::string version{};          ///< "7.0.15"
  std::string role{};             ///< "master" or "slave", in the server's own words.
  std::string eviction{};         ///< maxmemory_policy
  std::uint64_t used_memory = 0;  ///< In bytes.
  std::uint64_t max_memory = 0;   ///< 0: no limit.
  std::string append_only{};      ///< aof_enabled: "0" or "1".
  std::string append_status{};    ///< aof_last_write_status: "ok" or "err".
  std::string fsync{};            ///< appendfsync
  std::uint64_t replicas = 0;     ///< Connected ones.
  bool clustered = false;         ///< cluster_enabled
  std::string unknown{};          ///< Why INFO could not be asked. Empty if it could.
};

/// Throws `error` if the server does not answer.
[[nodiscard]] server_settings look_at(server& s);

/// Makes the checks of durability and memory.
void check_durability(server_settings const& f, std::size_t wanted_replicas, std::vector<spi::finding>& found);

/// True if the version is at least 6.2, or is not known.
[[nodiscard]] bool new_enough(server_settings const& f) noexcept;

}  // namespace outbox::inline v0::redis
