#include "postgres/parameters.hpp"

#include <algorithm>
#include <concepts>
#include <new>
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
void put(char*& to, T v) noexcept {
  for (int shift = static_cast<int>(sizeof v) * 8 - 8; shift >= 0; shift -= 8) {
    *to++ = static_cast<char>(static_cast<unsigned char>(v >> shift));
  }
}

void put(char*& to, std::string_view bytes) noexcept { to = std::ranges::copy(bytes, to).out; }

// What stands before the elements of an array.
constexpr std::size_t array_header = 20;

// One dimension, from 1. Each element is a length and its bytes; the length of NULL is -1.
void begin_array(char*& to, std::uint32_t type, std::size_t count) noexcept {
  put(to, std::uint32_t{count == 0 ? 0U : 1U});
  put(to, std::uint32_t{1});  // there may be a NULL
  put(to, type);
  if (count == 0) return;
  put(to, static_cast<std::uint32_t>(count));
  put(to, std::uint32_t{1});
}

void put_array(char*& to, optional_texts items, std::uint32_t type) noexcept {
  begin_array(to, type, items.size());
  for (auto const& i : items) {
    put(to, i ? static_cast<std::uint32_t>(i->size()) : ~std::uint32_t{0});
    if (i) put(to, *i);
  }
}

void put_array(char*& to, std::span<std::int64_t const> items) noexcept {
  begin_array(to, bigint_oid, items.size());
  for (auto const i : items) {
    put(to, std::uint32_t{8});
    put(to, static_cast<std::uint64_t>(i));
  }
}

// How many bytes a value may take: at most 20 for a number, 29 for an instant.
std::size_t most_bytes(sql::value const& v) noexcept {
  constexpr std::size_t longest = 32;
  if (auto const* const t = std::get_if<std::string_view>(&v)) return t->size();
  if (auto const* const b = std::get_if<sql::blob>(&v)) return b->bytes.size();
  return longest;
}

std::size_t most_bytes(optional_texts items) noexcept {
  std::size_t size = array_header;
  for (auto const& i : items) size += 4 + (i ? i->size() : 0);
  return size;
}

std::size_t most_bytes(parameter const& p) noexcept {
  if (auto const* const t = std::get_if<text_array>(&p)) return most_bytes(t->items);
  if (auto const* const b = std::get_if<blob_array>(&p)) return most_bytes(b->items);
  if (auto const* const i = std::get_if<integer_array>(&p)) return array_header + i->items.size() * 12;
  return most_bytes(std::get<sql::value>(p));
}

// As the server keeps it.
std::uint64_t microseconds_since_2000(instant t) noexcept {
  using namespace std::chrono;
  static constexpr instant epoch{sys_days{year{2000} / 1 / 1}};
  return static_cast<std::uint64_t>(duration_cast<microseconds>(t - epoch).count());
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

parameters::parameters(std::span<sql::value const> values) { fill(values); }
parameters::parameters(std::span<parameter const> values) { fill(values); }

template <class Values>
void parameters::fill(Values values) {
  std::size_t bytes = 0;
  for (auto const& v : values) bytes += most_bytes(v) + 1;  // libpq wants a NUL behind a text
  if (!values.empty()) reserve(values.size(), bytes);
  for (auto const& v : values) add(v);
}

void parameters::reserve(std::size_t count, std::size_t bytes) {
  block_ = std::make_unique_for_overwrite<std::byte[]>(count * (sizeof(char const*) + 2 * sizeof(int)) + bytes);
  pointers_ = new (block_.get()) char const*[count];
  lengths_ = new (pointers_ + count) int[count];
  formats_ = new (lengths_ + count) int[count];
  end_ = new (formats_ + count) char[bytes];
}

// `put` writes the value to where its argument points and moves that behind it.
template <class Put>
void parameters::push(int format, Put&& put) {
  auto* const begin = end_;
  put(end_);
  auto const length = static_cast<std::size_t>(end_ - begin);
  *end_++ = '\0';
  pointers_[count_] = begin;
  lengths_[count_] = static_cast<int>(length);
  formats_[count_++] = format;
  bytes_ += length;
}

void parameters::add_text(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) {
    throw error{errc::store_failure, "a text parameter has a NUL in it: pass it as a sql::blob"};
  }
  push(0, [&](char*& to) { put(to, text); });
}

void parameters::add(sql::value const& v) {
  if (std::holds_alternative<std::monostate>(v)) {
    pointers_[count_] = nullptr;
    lengths_[count_] = formats_[count_] = 0;
    ++count_;
  } else if (auto const* const t = std::get_if<std::string_view>(&v)) {
    add_text(*t);
  } else if (auto const* const b = std::get_if<sql::blob>(&v)) {
    push(1, [&](char*& to) { put(to, b->bytes); });
  } else {
    add_text(plain_text_of(v));
  }
}

void parameters::add(parameter const& p) {
  if (auto const* const t = std::get_if<text_array>(&p)) {
    push(1, [&](char*& to) { put_array(to, t->items, text_oid); });
  } else if (auto const* const b = std::get_if<blob_array>(&p)) {
    push(1, [&](char*& to) { put_array(to, b->items, bytea_oid); });
  } else if (auto const* const i = std::get_if<integer_array>(&p)) {
    push(1, [&](char*& to) { put_array(to, i->items); });
  } else if (auto const* const at = std::get_if<instant>(&std::get<sql::value>(p))) {
    push(1, [&](char*& to) { put(to, microseconds_since_2000(*at)); });
  } else {
    add(std::get<sql::value>(p));
  }
}

}  // namespace outbox::inline v0::postgres
