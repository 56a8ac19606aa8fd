#include "mysql/sql_text.hpp"

#include <charconv>
#include <outbox/error.hpp>

#include "sql/instant_text.hpp"

namespace outbox::inline v0::mysql {
namespace {

constexpr char digits[] = "0123456789abcdef";

template <class... F>
struct overloaded : F... {
  using F::operator()...;
};
template <class... F>
overloaded(F...) -> overloaded<F...>;

}  // namespace

// The character sets that driver::text() accepts have no character with a quote or a backslash among its bytes. A
// session may have another one that its client does not know of: there, a backslash may be the second byte of a
// character. Such a text goes in hexadecimal.
sql_text& sql_text::text(std::string_view value) {
  auto const before = text_.size();
  auto const whole = value;
  text_ += how_.introduced ? "_utf8mb4'" : "'";
  auto const special = how_.backslashes ? std::string_view{"'\\"} : std::string_view{"'"};
  while (true) {
    auto const end = value.find_first_of(special);
    text_ += value.substr(0, end);
    if (end == std::string_view::npos) break;
    if (end > 0 && value[end] == '\\' && (static_cast<unsigned char>(value[end - 1]) & 0x80U) != 0) {
      text_.resize(before);
      text_ += "_utf8mb4 ";
      return bytes(whole);
    }
    text_.append(2, value[end]);  // twice stands for once
    value.remove_prefix(end + 1);
  }
  text_ += '\'';
  return *this;
}

sql_text& sql_text::bytes(std::string_view value) {
  text_ += "x'";
  text_.reserve(text_.size() + value.size() * 2 + 1);
  for (char const c : value) {
    auto const byte = static_cast<unsigned char>(c);
    text_ += digits[byte >> 4U];
    text_ += digits[byte & 15U];
  }
  text_ += '\'';
  return *this;
}

sql_text& sql_text::number(std::int64_t value) {
  char out[24];
  text_.append(out, std::to_chars(out, out + sizeof out, value).ptr);
  return *this;
}

sql_text& sql_text::value(sql::value const& v) {
  std::visit(overloaded{[&](std::monostate) { text_ += "NULL"; }, [&](std::int64_t n) { number(n); },
                        [&](std::string_view t) { text(t); }, [&](sql::blob b) { bytes(b.bytes); },
                        [&](instant t) { (*this) << "'" << sql::instant_text{t}.view() << "'"; },
                        [&](sql::from_now t) {
                          if (t.by.count() == 0) {
                            text_ += "utc_timestamp(6)";
                          } else {
                            ((*this) << "(utc_timestamp(6) + INTERVAL ").number(t.by.count()) << " MICROSECOND)";
                          }
                        }},
             v);
  return *this;
}

sql_text& sql_text::statement(std::string_view sql, std::span<sql::value const> values) {
  while (true) {
    auto const mark = sql.find('?');
    text_ += sql.substr(0, mark);
    if (mark == std::string_view::npos) return *this;
    std::size_t number = 0;
    auto const* const first = sql.data() + mark + 1;
    auto const* const last = std::from_chars(first, sql.data() + sql.size(), number).ptr;
    value(values[number - 1]);
    sql.remove_prefix(static_cast<std::size_t>(last - sql.data()));
  }
}

void append_json(std::string& json, std::string_view text) {
  json += '"';
  for (char const c : text) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += "\\u00";
      json += digits[static_cast<unsigned char>(c) >> 4U];
      json += digits[static_cast<unsigned char>(c) & 15U];
    } else {
      json += c;
    }
  }
  json += '"';
}

void check_size(sql_text const& t, std::size_t packet) {
  if (packet == 0 || t.size() + packet_overhead <= packet) return;
  throw error::about(errc::invalid_event, "payload",
                     "makes a statement of " + std::to_string(t.size()) +
                         " bytes, the server's max_allowed_packet is " + std::to_string(packet));
}

}  // namespace outbox::inline v0::mysql
