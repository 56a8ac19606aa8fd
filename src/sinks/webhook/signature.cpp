#include "sinks/webhook/signature.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <stdexcept>

namespace outbox::inline v0::webhook {
namespace {

constexpr std::string_view prefix = "whsec_";
constexpr std::size_t fewest_bytes = 24, most_bytes = 64, most_digits = (most_bytes + 2) / 3 * 4;

unsigned char const* bytes(std::string_view text) noexcept {
  return reinterpret_cast<unsigned char const*>(text.data());
}

std::string base64(unsigned char const* data, std::size_t size) {
  std::string text((size + 2) / 3 * 4 + 1, '\0');  // libcrypto writes a NUL behind it
  auto const n = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), data, static_cast<int>(size));
  text.resize(static_cast<std::size_t>(n));
  return text;
}

}  // namespace

// libcrypto would skip spaces, and gives zeros for the padding.
std::optional<std::string> key_of_secret(std::string_view secret) {
  if (!secret.starts_with(prefix)) return std::nullopt;
  auto const text = secret.substr(prefix.size());
  auto const digits = text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
  auto const end = std::min(digits, text.size());
  auto const padding = text.size() - end;
  if (text.empty() || text.size() % 4 != 0 || text.size() > most_digits || padding > 2) return std::nullopt;
  if (text.find_first_not_of('=', end) != std::string_view::npos) return std::nullopt;
  unsigned char key[most_digits / 4 * 3];
  auto const n = EVP_DecodeBlock(key, bytes(text), static_cast<int>(text.size()));
  auto const size = static_cast<std::size_t>(n) - padding;
  if (n < 0 || size < fewest_bytes || size > most_bytes) return std::nullopt;
  return std::string{reinterpret_cast<char const*>(key), size};
}

std::string signature(std::vector<std::string> const& keys, std::string_view id, std::int64_t timestamp,
                      std::string_view body) {
  std::string content;
  content.reserve(id.size() + body.size() + 24);
  content.append(id).append(".").append(std::to_string(timestamp)).append(".").append(body);
  std::string all;
  for (auto const& key : keys) {
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes(content), content.size(), mac, &size) ==
        nullptr) {
      throw std::runtime_error{"the message could not be signed"};
    }
    all += (all.empty() ? "v1," : " v1,") + base64(mac, size);
  }
  return all;
}

}  // namespace outbox::inline v0::webhook
