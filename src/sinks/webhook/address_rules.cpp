#include "sinks/webhook/address_rules.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace outbox::inline v0::webhook {
namespace {

template <std::size_t Size>
struct range {
  std::array<std::uint8_t, Size> first;
  unsigned bits;
  std::string_view kind;
};

// The registries of special-purpose addresses, and what has no place as a receiver.
constexpr range<4> ranges_v4[] = {
    {{0}, 8, "this network"},
    {{10}, 8, "private"},
    {{100, 64}, 10, "shared by a carrier"},
    {{127}, 8, "loopback"},
    {{169, 254}, 16, "link-local"},
    {{172, 16}, 12, "private"},
    {{192, 0, 0}, 24, "reserved"},
    {{192, 0, 2}, 24, "for documentation"},
    {{192, 31, 196}, 24, "reserved"},
    {{192, 52, 193}, 24, "reserved"},
    {{192, 88, 99}, 24, "reserved"},
    {{192, 168}, 16, "private"},
    {{192, 175, 48}, 24, "reserved"},
    {{198, 18}, 15, "for benchmarks"},
    {{198, 51, 100}, 24, "for documentation"},
    {{203, 0, 113}, 24, "for documentation"},
    {{224}, 4, "multicast"},
    {{240}, 4, "reserved"},
};

// Only 2000::/3 is given out: the last three entries are the rest. The first that fits gives the name.
constexpr range<16> ranges_v6[] = {
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 128, "unspecified"},
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128, "loopback"},
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, "of version 4, written as one of version 6"},
    {{0x20, 0x02}, 16, "6to4"},
    {{0xfc}, 7, "unique local"},
    {{0xfe, 0x80}, 10, "link-local"},
    {{0xfe, 0xc0}, 10, "site-local"},
    {{0xff}, 8, "multicast"},
    {{0x20, 0x01}, 23, "reserved"},
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "for documentation"},
    {{0x3f, 0xff}, 20, "for documentation"},
    {{0}, 3, "reserved"},
    {{0x40}, 2, "reserved"},
    {{0x80}, 1, "reserved"},
};

// Addresses behind which a gateway makes connections to version 4: the last four bytes say where.
constexpr range<16> nat64 = {{0, 0x64, 0xff, 0x9b}, 96, "NAT64"};

template <std::size_t Size>
bool inside(std::span<std::uint8_t const, Size> address, range<Size> const& r) noexcept {
  for (std::size_t bit = 0; bit < r.bits; ++bit) {
    auto const mask = static_cast<std::uint8_t>(0x80U >> bit % 8);
    if ((address[bit / 8] & mask) != (r.first[bit / 8] & mask)) return false;
  }
  return true;
}

template <std::size_t Size, std::size_t N>
std::string_view kind_of(std::span<std::uint8_t const, Size> address, range<Size> const (&all)[N]) noexcept {
  for (auto const& r : all) {
    if (inside(address, r)) return r.kind;
  }
  return {};
}

std::string_view kind_of_v6(std::span<std::uint8_t const, 16> address) noexcept {
  if (inside(address, nat64)) return kind_of(address.last<4>(), ranges_v4);
  return kind_of(address, ranges_v6);
}

}  // namespace

std::string_view not_public(::sockaddr const& a) noexcept {
  if (a.sa_family == AF_INET) {
    std::array<std::uint8_t, 4> bytes{};
    std::memcpy(bytes.data(), &reinterpret_cast<::sockaddr_in const&>(a).sin_addr, bytes.size());
    return kind_of(std::span<std::uint8_t const, 4>{bytes}, ranges_v4);
  }
  if (a.sa_family != AF_INET6) return "of an unknown family";
  std::array<std::uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), &reinterpret_cast<::sockaddr_in6 const&>(a).sin6_addr, bytes.size());
  return kind_of_v6(bytes);
}

std::string address_text(::sockaddr const& a) {
  char text[INET6_ADDRSTRLEN] = "an address";
  if (a.sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<::sockaddr_in const&>(a).sin_addr, text, sizeof text);
  } else if (a.sa_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<::sockaddr_in6 const&>(a).sin6_addr, text, sizeof text);
  }
  return text;
}

}  // namespace outbox::inline v0::webhook
