// A configuration as it was read: values with the place where they stand.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outbox::inline v0::configuration {

struct value {
  enum class kind { text, integer, number, boolean, table, list, other };
  kind is = kind::table;
  std::string text{};             ///< Of a text, an integer, a number or a boolean.
  std::string where{};            ///< "relay.toml:7:3", or "environment variable OUTBOX_POLL__EVERY".
  bool from_environment = false;  ///< Then everything is text, and the type of the setting decides how it is read.
  std::vector<std::pair<std::string, value>> members{};  ///< Of a table; of a list, with empty names.

  [[nodiscard]] value const* find(std::string_view name) const noexcept {
    for (auto const& [n, v] : members) {
      if (n == name) return &v;
    }
    return nullptr;
  }
  [[nodiscard]] value* find(std::string_view name) noexcept {
    return const_cast<value*>(std::as_const(*this).find(name));
  }
};

/// "a text", "a table", …
[[nodiscard]] std::string_view name_of(value::kind k) noexcept;

/// Reads TOML. What is wrong with it is added to `problems`.
[[nodiscard]] value from_toml(std::string const& text, std::string const& file, std::vector<std::string>& problems);

/// Adds variables: OUTBOX_STORE__URL is `store.url`, OUTBOX_ROUTES__0__TOPIC the topic of the first route.
void add_environment(value& to, std::map<std::string, std::string> const& variables,
                     std::vector<std::string>& problems);

/// The variables of the process that begin with OUTBOX_.
[[nodiscard]] std::map<std::string, std::string> process_environment();

/// Puts in what `${env:NAME}` and `${file:/path}` stand for. What is wrong is added to `problems`, without the content.
[[nodiscard]] std::string with_references(value const& v, std::string const& key, std::vector<std::string>& problems);

}  // namespace outbox::inline v0::configuration
