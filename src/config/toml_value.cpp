#include <toml++/toml.h>
#include <sstream>

#include "config/value.hpp"

namespace outbox::inline v0::configuration {
namespace {

std::string place(std::string const& file, toml::source_region const& s) {
  return file + ":" + std::to_string(s.begin.line) + ":" + std::to_string(s.begin.column);
}

value convert(toml::node const& n, std::string const& file) {
  value v{.where = place(file, n.source())};
  if (auto const* const t = n.as_table()) {
    v.is = value::kind::table;
    for (auto const& [key, member] : *t) {
      auto one = convert(member, file);
      one.where = place(file, key.source());
      v.members.emplace_back(std::string{key.str()}, std::move(one));
    }
  } else if (auto const* const a = n.as_array()) {
    v.is = value::kind::list;
    for (auto const& member : *a) v.members.emplace_back(std::string{}, convert(member, file));
  } else if (auto const* const s = n.as_string()) {
    v.is = value::kind::text;
    v.text = s->get();
  } else if (auto const* const i = n.as_integer()) {
    v.is = value::kind::integer;
    v.text = std::to_string(i->get());
  } else if (auto const* const b = n.as_boolean()) {
    v.is = value::kind::boolean;
    v.text = b->get() ? "true" : "false";
  } else if (auto const* const f = n.as_floating_point()) {
    v.is = value::kind::number;
    v.text = std::to_string(f->get());
  } else {
    v.is = value::kind::other;
  }
  return v;
}

}  // namespace

std::string_view name_of(value::kind k) noexcept {
  switch (k) {
    case value::kind::text: return "a text";
    case value::kind::integer: return "an integer";
    case value::kind::number: return "a number with a fraction";
    case value::kind::boolean: return "true or false";
    case value::kind::table: return "a table";
    case value::kind::list: return "a list";
    case value::kind::other: break;
  }
  return "a date or a time";
}

value from_toml(std::string const& text, std::string const& file, std::vector<std::string>& problems) {
  try {
    return convert(toml::parse(text, file), file);
  } catch (toml::parse_error const& e) {
    problems.push_back(place(file, e.source()) + ": this is not TOML: " + std::string{e.description()});
    return {};
  }
}

}  // namespace outbox::inline v0::configuration
