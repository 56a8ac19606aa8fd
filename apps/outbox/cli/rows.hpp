// Events and nodes as verbs show them.
#pragma once

#include <nlohmann/json.hpp>
#include <outbox/store.hpp>
#include <string>
#include <vector>

#include "cli/report.hpp"

namespace outbox_tool {

/// "order/42", or "" for an event that names no aggregate.
[[nodiscard]] std::string aggregate_text(outbox::event const& e);

/// NEW, RETRY, DONE or DEAD, and whether a node holds it.
[[nodiscard]] cell state_cell(outbox::row_view const& row, outbox::instant now);

/// A table of events: id, type, aggregate, state, tries, age, error.
[[nodiscard]] report event_table();
void add_event(report& to, outbox::row_view const& row, outbox::instant now);

/// Everything about an event except its payload.
[[nodiscard]] facts event_facts(outbox::row_view const& row, outbox::instant now);

}  // namespace outbox_tool
