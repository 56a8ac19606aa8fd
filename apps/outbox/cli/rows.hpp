// Events and nodes as verbs show them.
#pragma once

#include <nlohmann/json.hpp>
#include <outbox/store.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/report.hpp"

namespace outbox_tool {

/// "order/42", or "" for an event that names no aggregate.
[[nodiscard]] std::string aggregate_text(outbox::event const& e);

/// A key as stores write it, for people: the ordering key, or "order/42".
[[nodiscard]] std::string key_text(std::string_view key);

/// NEW, RETRY, DONE or DEAD, and whether a node holds it or it waits for another event of its key.
[[nodiscard]] cell state_cell(outbox::row_view const& row, outbox::instant now);

/// A table of events: id, type, aggregate, state, tries, age, error.
[[nodiscard]] report event_table();
void add_event(report& to, outbox::row_view const& row, outbox::instant now);

/// Everything about an event except its payload. `keyed`: the table keeps the order of keys.
[[nodiscard]] facts event_facts(outbox::row_view const& row, outbox::instant now, bool keyed);

}  // namespace outbox_tool
