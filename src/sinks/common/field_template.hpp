// Templates over the fields of an event: "orders.{aggregate_type}".
#pragma once

#include <outbox/event.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0::sinks {

/// A parsed template. Thread-safe.
class field_template {
 public:
  /// Throws `error` (invalid_option) about `option` if a brace is not closed or a field is unknown.
  field_template(std::string_view option, std::string_view text);

  [[nodiscard]] std::string of(event const& e) const;

  /// True if it was made of an empty text.
  [[nodiscard]] bool empty() const noexcept { return pieces_.empty(); }

 private:
  enum class field { text, id, type, aggregate_type, aggregate_id, tenant, ordering_key, header };
  struct piece {
    field what;
    std::string text;  ///< What stands there, or the name of a header.
  };
  [[nodiscard]] static piece field_named(std::string_view option, std::string_view name);

  std::vector<piece> pieces_;
};

}  // namespace outbox::inline v0::sinks
