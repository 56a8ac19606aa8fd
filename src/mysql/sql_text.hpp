// The text of a statement with its values in it.
//
// Statements go to the server as text: only so can several of them make one round trip, and a list have any length.
// Values are quoted here and nowhere else.
#pragma once

#include <cstdint>
#include <outbox/spi/sql_connection.hpp>
#include <span>
#include <string>
#include <string_view>

namespace outbox::inline v0::mysql {

/// How a session reads a text in quotes.
struct quoting {
  bool backslashes = true;  ///< A backslash escapes the next character: sql_mode does not have NO_BACKSLASH_ESCAPES.
  bool introduced = false;  ///< Each text says that it is utf8mb4.
};

class sql_text {
 public:
  explicit sql_text(quoting how) noexcept : how_{how} {}

  /// Adds SQL as it is.
  sql_text& operator<<(std::string_view sql) {
    text_ += sql;
    return *this;
  }
  sql_text& text(std::string_view value);   ///< A text in quotes.
  sql_text& bytes(std::string_view value);  ///< Bytes, in hexadecimal.
  sql_text& number(std::int64_t value);
  sql_text& value(sql::value const& v);

  /// Adds a statement whose placeholders ?1, ?2, … stand for the values. There is no question mark in its own texts.
  sql_text& statement(std::string_view sql, std::span<sql::value const> values);
  sql_text& statement(std::string_view sql, std::initializer_list<sql::value> values) {
    return statement(sql, std::span{values.begin(), values.size()});
  }

  /// Adds the items as a list in parentheses, each by `add(item)`. There must be one at least.
  template <class Items, class Add>
  sql_text& list(Items const& items, Add&& add) {
    char before = '(';
    for (auto const& item : items) {
      text_ += before;
      before = ',';
      add(item);
    }
    text_ += ')';
    return *this;
  }

  [[nodiscard]] std::string const& str() const noexcept { return text_; }
  [[nodiscard]] std::size_t size() const noexcept { return text_.size(); }
  void reserve(std::size_t bytes) { text_.reserve(bytes); }

  /// Removes everything behind the first `size` characters.
  void shrink_to(std::size_t size) { text_.resize(size); }

 private:
  quoting how_;
  std::string text_;
};

/// What a packet has besides the text of a statement.
inline constexpr std::size_t packet_overhead = 1024;

/// Throws `error` (invalid_event) about the payload if the text is too large for one packet of `packet` bytes; 0: there
/// is no limit. The server would end a session that sends a larger one, and with it the caller's transaction.
void check_size(sql_text const& t, std::size_t packet);

/// Adds a text to a JSON document, in double quotes. It must be valid UTF-8.
void append_json(std::string& json, std::string_view text);

}  // namespace outbox::inline v0::mysql
