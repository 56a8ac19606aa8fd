#include "cli/report.hpp"

#include <algorithm>
#include <chrono>

#include "cli/shown_text.hpp"
#include "cli/time_text.hpp"

namespace outbox_tool {
namespace {

using nlohmann::ordered_json;

std::string padded(std::string const& text, std::size_t width, bool right) {
  auto const used = width_of(text);
  std::string const space(width > used ? width - used : 0, ' ');
  return right ? space + text : text + space;
}

// As a script wants it: a text without quotes, nothing for null.
std::string plain_text(ordered_json const& v) {
  if (v.is_null()) return "";
  if (v.is_string()) return shown(v.get_ref<std::string const&>());
  return v.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
}

}  // namespace

cell text_cell(std::string_view text, look how) {
  return {shown(text), text.empty() ? ordered_json{} : ordered_json(std::string{text}), how};
}

cell number_cell(std::uint64_t n, look how) { return {number_text(n), n, how}; }

cell count_cell(std::uint64_t n, std::uint64_t limit, look how) {
  return {(n >= limit ? "≥ " : "") + number_text(n), n, how};
}

cell age_cell(std::optional<outbox::instant> at, outbox::instant now, look how) {
  if (!at) return {};
  return {age_text(*at, now), rfc3339(*at), how};
}

cell time_cell(std::optional<outbox::instant> at) {
  if (!at) return {};
  return {clock_text(*at), rfc3339(*at)};
}

ordered_json report::json() const {
  auto all = ordered_json::array();
  for (auto const& row : rows_) {
    auto one = ordered_json::object();
    for (std::size_t i = 0; i < columns_.size(); ++i) one[columns_[i].key] = row[i].value;
    all.push_back(std::move(one));
  }
  return all;
}

void report::print(console& to, bool header) const {
  switch (to.chosen()) {
    case form::json: to.document(json()); break;
    case form::pretty: print_pretty(to, header); break;
    case form::plain:
      for (auto const& row : rows_) {
        std::string line;
        for (std::size_t i = 0; i < columns_.size(); ++i) line += (i == 0 ? "" : "\t") + plain_text(row[i].value);
        to.out(line + "\n");
      }
  }
  to.flush();
}

void report::print_pretty(console& to, bool header) const {
  std::vector<std::size_t> widths;
  std::size_t fixed = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    auto width = header ? width_of(columns_[i].title) : 0;
    for (auto const& row : rows_) width = std::max(width, width_of(row[i].text));
    widths.push_back(width);
    fixed += columns_[i].wide ? 2 : width + 2;
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    auto const left = to.width() > fixed ? to.width() - fixed : 0;
    constexpr std::size_t least = 40;
    if (columns_[i].wide) widths[i] = std::min(widths[i], std::max(left, least));
  }
  auto const line = [&](auto const& text_of, auto const& look_of) {
    std::string text;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      auto const one = padded(cut(text_of(i), widths[i]), widths[i], columns_[i].right);
      text += (i == 0 ? "" : "  ") + to.painted(one, look_of(i));
    }
    text.erase(text.find_last_not_of(' ') + 1);
    to.out(text + "\n");
  };
  if (header) {
    line([&](std::size_t i) { return columns_[i].title; }, [](std::size_t) { return look::bold; });
  }
  for (auto const& row : rows_) {
    line([&](std::size_t i) { return row[i].text; }, [&](std::size_t i) { return row[i].how; });
  }
}

void facts::add(std::string key, std::string title, cell value) {
  facts_.push_back({std::move(key), std::move(title), std::move(value)});
}

ordered_json facts::json() const {
  auto one = ordered_json::object();
  for (auto const& f : facts_) one[f.key] = f.value.value;
  return one;
}

void facts::print(console& to) const {
  std::size_t width = 0;
  for (auto const& f : facts_) {
    if (!f.value.text.empty()) width = std::max(width, width_of(f.title));
  }
  for (auto const& f : facts_) {
    if (to.chosen() == form::plain) {
      to.out(f.key + "\t" + plain_text(f.value.value) + "\n");
    } else if (!f.value.text.empty()) {
      to.out("  " + to.painted(padded(f.title, width, false), look::faint) + "  " +
             to.painted(f.value.text, f.value.how) + "\n");
    }
  }
  to.flush();
}

}  // namespace outbox_tool
