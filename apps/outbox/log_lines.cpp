#include "log_lines.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

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

std::string log_line(outbox::log_form form, outbox::log_level level, std::string_view message, outbox::instant at) {
  std::string const name{outbox::name(level)};
  if (form == outbox::log_form::json) {
    return R"({"time":")" + time_text(at) + R"(","level":")" + name + R"(","message":)" + in_quotes(message) + "}\n";
  }
  return "time=" + time_text(at) + " level=" + name + " message=" + in_quotes(message) + "\n";
}

outbox::log_function log_to(outbox::log_form form, outbox::log_level least) {
  return [form, least](outbox::log_level level, std::string_view message) {
    if (level < least) return;
    auto const now = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
    auto const line = log_line(form, level, message, now);
    static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  };
}

}  // namespace outbox_tool
