// The checks of `outbox doctor` that belong to the tool and not to a store: clocks, nodes, routes, waiting events, the
// configuration file.
#pragma once

#include <chrono>
#include <functional>
#include <outbox/error.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <vector>

namespace outbox_tool {

/// What the checks take for too much.
struct doctor_limits {
  std::chrono::milliseconds lag{std::chrono::minutes{5}};  ///< How long an event may wait.
  outbox::spi::limit_pair<std::chrono::milliseconds> skew{std::chrono::milliseconds{250}, std::chrono::seconds{2}};
  outbox::spi::finding_limits store{};  ///< For the store's own checks.
};

using finding_list = std::vector<outbox::spi::finding>;

/// Adds what the store finds and what the tool finds about it. A part that fails is skipped and says why. Throws
/// `error` if that is transient.
void check_store(outbox::store& s, doctor_limits const& limits, finding_list& found);

/// "config_file": whether others may read a configuration that has a password in it.
void check_config_file(std::string const& file, finding_list& found);

/// "clock_skew": the difference between this machine and the store, by the sample that took least time.
void check_clocks(std::function<outbox::instant()> const& theirs, std::function<outbox::instant()> const& ours,
                  doctor_limits const& limits, finding_list& found);

/// "live_nodes", "node_versions", "unwell_node".
void check_nodes(std::vector<outbox::node_row> const& nodes, bool waiting, finding_list& found);

/// "parked_keys", and "order_of_keys": whether all nodes agree with the mark of the table.
void check_keys(bool keyed, std::vector<outbox::parked_key> const& parked, std::vector<outbox::node_row> const& nodes,
                outbox::instant now, finding_list& found);

/// "unserved_types": event types in the table that no live node has a route for.
void check_routes(std::vector<outbox::node_row> const& nodes, std::vector<outbox::spi::event_type_counts> const& types,
                  bool keyed, finding_list& found);

/// "schema_version" of a table that is not there, or is another one's.
void add_schema_problem(std::string const& problem, bool newer, finding_list& found);

/// "connection": the database does not answer or refuses the user.
void add_connection_problem(outbox::error const& e, finding_list& found);

}  // namespace outbox_tool
