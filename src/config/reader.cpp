#include "config/reader.hpp"

#include <algorithm>
#include <limits>

namespace outbox::inline v0::configuration {

reader::~reader() {
  for (auto const& [name, v] : table_.members) {
    if (std::ranges::find(known_, name) != known_.end()) continue;
    auto const like = nearest(name, known_);
    f_.problems.push_back(v.where + ": unknown key '" + key(name) + "'" +
                          (like ? ": did you mean '" + *like + "'?" : ""));
  }
}

std::string reader::where_of(std::string_view name) const {
  auto const* const v = table_.find(name);
  auto const& place = v != nullptr ? v->where : table_.where;
  return place.empty() ? "configuration" : place;
}

void reader::require(std::string_view name, std::string_view example) {
  if (!has(name)) complain(name, "is missing: write " + std::string{example});
}

value const* reader::take(std::string_view name, value::kind k, std::string const& wanted) {
  known_.emplace_back(name);
  auto const* const v = table_.find(name);
  if (v == nullptr || v->is == k) return v;
  complain(name, "must be " + wanted + ", it is " + std::string{name_of(v->is)});
  return nullptr;
}

// A text, a number or a boolean. A variable of the environment is a text, whatever it means.
value const* reader::scalar(std::string_view name, std::string const& wanted) {
  known_.emplace_back(name);
  auto const* const v = table_.find(name);
  if (v == nullptr) return nullptr;
  f_.places.emplace_back(key(name), v->where);
  if (v->is != value::kind::table && v->is != value::kind::list && v->is != value::kind::other) return v;
  complain(name, "must be " + wanted + ", it is " + std::string{name_of(v->is)});
  return nullptr;
}

void reader::note(std::string_view name, std::string const& shown) { f_.said.push_back(key(name) + " = " + shown); }

void reader::field(std::string_view name, bool& into) {
  auto const* const v = scalar(name, "true or false");
  if (v == nullptr) return;
  bool const fits = v->is == value::kind::boolean || v->from_environment;
  if (!fits || (v->text != "true" && v->text != "false")) {
    return complain(name, "must be true or false, it is " +
                              std::string{v->from_environment ? "'" + v->text + "'" : name_of(v->is)});
  }
  into = v->text == "true";
  note(name, v->text);
}

void reader::field(std::string_view name, std::string& into) {
  auto const* const v = scalar(name, "a text");
  if (v == nullptr) return;
  if (v->is != value::kind::text) return complain(name, "must be a text, it is " + std::string{name_of(v->is)});
  into = with_references(*v, key(name), f_.problems);
  note(name, v->text);  // with its references, not with what they stand for
}

void reader::secret(std::string_view name, std::string& into) {
  if (auto const* const v = hidden_text(name, into)) note(name, without_password(v->text));
}

void reader::address(std::string_view name, std::string& into) {
  if (auto const* const v = hidden_text(name, into)) note(name, without_query(v->text));
}

// Returns the value, whose text is not all to be shown; null if there is none.
value const* reader::hidden_text(std::string_view name, std::string& into) {
  auto const* const v = scalar(name, "a text");
  if (v == nullptr) return nullptr;
  if (v->is != value::kind::text) {
    complain(name, "must be a text, it is " + std::string{name_of(v->is)});
    return nullptr;
  }
  into = with_references(*v, key(name), f_.problems);
  return v;
}

void reader::field(std::string_view name, std::chrono::milliseconds& into) {
  static constexpr auto wanted = "a duration, as in \"500ms\", \"5s\", \"2min\", \"1h\" or \"7d\"";
  auto const* const v = scalar(name, wanted);
  if (v == nullptr) return;
  auto const d = v->is == value::kind::text || v->is == value::kind::integer ? parse_duration(v->text) : std::nullopt;
  if (!d) return complain(name, "must be " + std::string{wanted} + ", it is '" + v->text + "'");
  into = *d;
  note(name, duration_text(*d));
}

bool reader::number(std::string_view name, std::uint64_t& into, std::uint64_t most) {
  auto const* const v = scalar(name, "a number");
  if (v == nullptr) return false;
  auto const n = v->is == value::kind::text || v->is == value::kind::integer ? parse_size(v->text) : std::nullopt;
  if (!n || *n > most) {
    auto const limit = most == std::numeric_limits<std::uint64_t>::max() ? "" : " up to " + std::to_string(most);
    complain(name, "must be a whole number, 0 or more" + limit + ", it is '" + v->text + "'");
    return false;
  }
  into = *n;
  note(name, v->text);
  return true;
}

void reader::wrong_word(std::string_view name, std::string const& text, std::vector<std::string> const& known) {
  std::string all;
  for (auto const& k : known) all += (all.empty() ? "" : ", ") + k;
  auto const like = nearest(text, known);
  complain(name, "is '" + text + "', which is not one of " + all + (like ? ": did you mean '" + *like + "'?" : ""));
}

void reader::texts(std::string_view name, std::vector<std::pair<std::string, std::string>>& into, bool secrets) {
  auto const* const t = take(name, value::kind::table, "a table");
  if (t == nullptr) return;
  reader inside{*t, key(name), f_};
  for (auto const& [own, v] : t->members) {
    auto const* const one = inside.scalar(own, "a text, a number, or true or false");
    if (one == nullptr) continue;
    into.emplace_back(own, with_references(*one, inside.key(own), f_.problems));
    inside.note(own, secrets ? "***" : one->text);
  }
}

}  // namespace outbox::inline v0::configuration
