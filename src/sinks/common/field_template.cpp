#include "sinks/common/field_template.hpp"

#include <outbox/error.hpp>
#include <utility>

namespace outbox::inline v0::sinks {
namespace {

[[noreturn]] void refuse(std::string_view option, std::string const& problem) {
  throw error::about(errc::invalid_option, std::string{option}, problem);
}

std::string_view header_of(event const& e, std::string const& name) noexcept {
  auto const found = e.headers().find(name);
  return found == e.headers().end() ? std::string_view{} : std::string_view{found->second};
}

}  // namespace

field_template::field_template(std::string_view option, std::string_view text) {
  std::string plain;
  auto const end_plain = [&] {
    if (!plain.empty()) pieces_.push_back({field::text, std::exchange(plain, {})});
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    char const c = text[i];
    bool const twice = i + 1 < text.size() && text[i + 1] == c;
    if ((c == '{' || c == '}') && twice) {
      plain += c;
      ++i;
    } else if (c == '}') {
      refuse(option, "has a '}' that closes nothing: write '}}' for a brace");
    } else if (c == '{') {
      auto const end = text.find('}', i);
      if (end == std::string_view::npos) refuse(option, "has a '{' without a '}': write '{{' for a brace");
      end_plain();
      pieces_.push_back(field_named(option, text.substr(i + 1, end - i - 1)));
      i = end;
    } else {
      plain += c;
    }
  }
  end_plain();
}

field_template::piece field_template::field_named(std::string_view option, std::string_view name) {
  constexpr std::string_view header = "header.";
  if (name.starts_with(header) && name.size() > header.size()) {
    return {field::header, std::string{name.substr(header.size())}};
  }
  struct known {
    std::string_view name;
    field what;
  };
  static constexpr known all[] = {{"id", field::id},
                                  {"type", field::type},
                                  {"aggregate_type", field::aggregate_type},
                                  {"aggregate_id", field::aggregate_id},
                                  {"tenant", field::tenant},
                                  {"ordering_key", field::ordering_key}};
  for (auto const& k : all) {
    if (k.name == name) return {k.what, {}};
  }
  refuse(option, "has an unknown field '{" + std::string{name} +
                     "}': there are {id}, {type}, {aggregate_type}, {aggregate_id}, {tenant}, {ordering_key} and "
                     "{header.NAME}");
}

std::string field_template::of(event const& e) const {
  std::string out;
  for (auto const& p : pieces_) {
    switch (p.what) {
      case field::text: out += p.text; break;
      case field::id: out += e.id(); break;
      case field::type: out += e.type(); break;
      case field::aggregate_type: out += e.aggregate_type(); break;
      case field::aggregate_id: out += e.aggregate_id(); break;
      case field::tenant: out += e.tenant(); break;
      case field::ordering_key: out += e.ordering_key(); break;
      case field::header: out += header_of(e, p.text); break;
    }
  }
  return out;
}

}  // namespace outbox::inline v0::sinks
