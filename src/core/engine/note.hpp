// A line for the log that the engine leaves to the node's threads.
#pragma once

#include <outbox/log.hpp>
#include <string>
#include <string_view>

#include "core/base/log_facts.hpp"

namespace outbox::inline v0::core {

/// Written when no lock is held. The log limits lines of one kind; an empty kind limits only repetitions of the text.
struct note {
  log_level level{};
  std::string text{};
  std::string_view kind{};
  log_facts facts{};
};

}  // namespace outbox::inline v0::core
