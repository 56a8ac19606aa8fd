#include "log_lines.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <outbox/system_log.hpp>

namespace outbox_tool {
namespace {

std::string time_text(outbox::instant at) {
  using namespace std::chrono;
  auto const day = floor<days>(at);
  year_month_day const date{day};
  hh_mm_ss const time{floor<milliseconds>(at - day)};
  char text[40];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", int{date.year()}, unsigned{date.month()},
                unsigned{date.day()}, static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()), static_cast<int>(time.subseconds().count()));
  return text;
}

std::string in_quotes(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string logfmt_line(outbox::log_line const& line, outbox::instant at) {
  auto text =
      "time=" + time_text(at) + " level=" + std::string{name(line.level)} + " message=" + in_quotes(line.message);
  if (!line.fields.empty()) text += " " + line.logfmt();
  return text + "\n";
}

std::string json_line(outbox::log_line const& line, outbox::instant at) {
  auto text = R"({"time":")" + time_text(at) + R"(","level":")" + std::string{name(line.level)} + R"(","message":)" +
              in_quotes(line.message);
  for (auto const& [key, value] : line.fields) text += "," + in_quotes(key) + ":" + in_quotes(value);
  return text + "}\n";
}

outbox::log_function log_to(outbox::log_form form, outbox::log_level least) {
  if (form == outbox::log_form::journal) return outbox::log_to_journal({.least = least});
  auto const line_of = form == outbox::log_form::json ? json_line : logfmt_line;
  return [line_of, least](outbox::log_line const& line) {
    if (line.level < least) return;
    auto const now = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
    auto const text = line_of(line, now);
    static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
  };
}

}  // namespace outbox_tool
