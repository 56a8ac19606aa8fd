#include "postgres/parameters.hpp"

#include <concepts>
#include <outbox/spi/postgres_adapter.hpp>

#include "sql/instant_text.hpp"

namespace outbox::inline v0::postgres {
namespace {

// The type numbers that stand inside binary arrays.
constexpr std::uint32_t bytea_oid = 17;
constexpr std::uint32_t bigint_oid = 20;
constexpr std::uint32_t text_oid = 25;

using optional_texts = std::span<std::optional<std::string_view> const>;

template <std::unsigned_integral T>
void put(std::string& to, T v) {
  for (int shift = static_cast<int>(sizeof v) * 8 - 8; shift >= 0; shift -= 8) {
    to += static_cast<char>(static_cast<unsigned char>(v >> shift));
  }
}

// One dimension, from 1. Each element is a length and its bytes; the length of NULL is -1.
void begin_array(std::string& to, std::uint32_t type, std::size_t count) {
  put(to, std::uint32_t{count == 0 ? 0U : 1U});
  put(to, std::uint32_t{1});  // there may be a NULL
  put(to, type);
  if (count == 0) return;
  put(to, static_cast<std::uint32_t>(count));
  put(to, std::uint32_t{1});
}

std::string array_of(optional_texts items, std::uint32_t type) {
  std::string to;
  std::size_t size = 20;
  for (auto const& i : items) size += 4 + (i ? i->size() : 0);
  to.reserve(size);
  begin_array(to, type, items.size());
  for (auto const& i : items) {
    put(to, i ? static_cast<std::uint32_t>(i->size()) : ~std::uint32_t{0});
    if (i) to += *i;
  }
  return to;
}

std::string array_of(std::span<std::int64_t const> items) {
  std::string to;
  to.reserve(20 + items.size() * 12);
  begin_array(to, bigint_oid, items.size());
  for (auto const i : items) {
    put(to, std::uint32_t{8});
    put(to, static_cast<std::uint64_t>(i));
  }
  return to;
}

std::string hex_of(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text = "\\x";
  text.reserve(2 + bytes.size() * 2);
  for (char const c : bytes) {
    auto const b = static_cast<unsigned char>(c);
    text += digits[b >> 4U];
    text += digits[b & 15U];
  }
  return text;
}

std::string quoted_element(std::string_view item) {
  std::string text = "\"";
  for (char const c : item) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

template <class Items, class F>
std::string braces(Items items, F&& element) {
  std::string text = "{";
  for (auto const& i : items) {
    if (text.size() > 1) text += ',';
    text += element(i);
  }
  return text + "}";
}

std::string plain_text_of(sql::value const& v) {
  if (auto const* const i = std::get_if<std::int64_t>(&v)) return std::to_string(*i);
  if (auto const* const t = std::get_if<std::string_view>(&v)) return std::string{*t};
  if (auto const* const at = std::get_if<instant>(&v)) return utc_text(*at);
  return std::to_string(std::get<sql::from_now>(v).by.count());
}

}  // namespace

std::optional<std::string> text_of(sql::value const& v) {
  if (std::holds_alternative<std::monostate>(v)) return std::nullopt;
  if (auto const* const b = std::get_if<sql::blob>(&v)) return hex_of(b->bytes);
  return plain_text_of(v);
}

std::optional<std::string> text_of(parameter const& p) {
  auto const or_null = [](auto&& element) {
    return [element](std::optional<std::string_view> const& i) { return i ? element(*i) : std::string{"NULL"}; };
  };
  if (auto const* const a = std::get_if<text_array>(&p)) return braces(a->items, or_null(quoted_element));
  if (auto const* const a = std::get_if<blob_array>(&p)) {
    return braces(a->items, or_null([](std::string_view bytes) { return quoted_element(hex_of(bytes)); }));
  }
  if (auto const* const a = std::get_if<integer_array>(&p)) {
    return braces(a->items, [](std::int64_t i) { return std::to_string(i); });
  }
  return text_of(std::get<sql::value>(p));
}

std::string numbered(std::string_view sql) {
  std::string text{sql};
  for (std::size_t at = 0; (at = text.find('?', at)) != std::string::npos; ++at) {
    if (at + 1 < text.size() && text[at + 1] >= '1' && text[at + 1] <= '9') text[at] = '$';
  }
  return text;
}

std::string utc_text(instant t) {
  std::string text;
  text += sql::instant_text{t}.view();
  text += "+00";
  return text;
}

parameters::parameters(std::span<sql::value const> values) {
  reserve(values.size());
  for (auto const& v : values) add(v);
}

parameters::parameters(std::span<parameter const> values) {
  reserve(values.size());
  for (auto const& p : values) add(p);
}

// Pointers go into the strings, so those must not move.
void parameters::reserve(std::size_t count) {
  texts_.reserve(count);
  pointers_.reserve(count);
  lengths_.reserve(count);
  formats_.reserve(count);
}

void parameters::push(std::string text, int format) {
  texts_.push_back(std::move(text));
  bytes_ += texts_.back().size();
  pointers_.push_back(texts_.back().c_str());
  lengths_.push_back(static_cast<int>(texts_.back().size()));
  formats_.push_back(format);
}

void parameters::add(sql::value const& v) {
  if (std::holds_alternative<std::monostate>(v)) {
    pointers_.push_back(nullptr);
    lengths_.push_back(0);
    formats_.push_back(0);
  } else if (auto const* const b = std::get_if<sql::blob>(&v)) {
    push(std::string{b->bytes}, 1);
  } else {
    auto text = plain_text_of(v);
    if (text.find('\0') != std::string::npos) {
      throw error{errc::store_failure, "a text parameter has a NUL in it: pass it as a sql::blob"};
    }
    push(std::move(text), 0);
  }
}

void parameters::add(parameter const& p) {
  if (auto const* const t = std::get_if<text_array>(&p)) {
    push(array_of(t->items, text_oid), 1);
  } else if (auto const* const b = std::get_if<blob_array>(&p)) {
    push(array_of(b->items, bytea_oid), 1);
  } else if (auto const* const i = std::get_if<integer_array>(&p)) {
    push(array_of(i->items), 1);
  } else {
    add(std::get<sql::value>(p));
  }
}

parameters::parameters(parameters const& other)
    : texts_{other.texts_},
      pointers_{other.pointers_},
      lengths_{other.lengths_},
      formats_{other.formats_},
      bytes_{other.bytes_} {
  auto text = texts_.begin();
  for (auto& p : pointers_) {
    if (p != nullptr) p = (text++)->c_str();
  }
}

}  // namespace outbox::inline v0::postgres
