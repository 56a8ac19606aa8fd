#include "core/events/names_check.hpp"

#include <string>

#include "core/base/text.hpp"

namespace outbox::inline v0::core {

char const* problem_of_text(std::string_view text) noexcept {
  if (!utf8_length(text)) return "is not valid UTF-8";
  return text.find('\0') == std::string_view::npos ? nullptr : "contains a NUL character";
}

void check_name(errc code, std::string_view field, std::string_view name, std::size_t limit) {
  auto const length = utf8_length(name);  // once: it is part of every write
  if (!length || name.find('\0') != std::string_view::npos) throw error::about(code, field, problem_of_text(name));
  if (*length > limit) {
    throw error::about(code, field,
                       "has " + std::to_string(*length) + " characters, the limit is " + std::to_string(limit));
  }
}

void check_pause(route_pause const& what) {
  if (what.event_type.empty()) throw error::about(errc::invalid_option, "pause.event_type", "is empty");
  check_name(errc::invalid_option, "pause.event_type", what.event_type, width::event_type);
  check_name(errc::invalid_option, "pause.aggregate_type", what.aggregate_type, width::aggregate_type);
}

bool is_possible(route_pause const& what) noexcept {
  auto const fits = [](std::string_view name, std::size_t limit) {
    return problem_of_text(name) == nullptr && utf8_length(name).value_or(0) <= limit;
  };
  return !what.event_type.empty() && fits(what.event_type, width::event_type) &&
         fits(what.aggregate_type, width::aggregate_type);
}

}  // namespace outbox::inline v0::core
