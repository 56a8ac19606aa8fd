#include <outbox/spi/codecs.hpp>

#include <nlohmann/json.hpp>

namespace outbox::inline v0::spi {

std::string encode_headers(headers const& h) { return h.empty() ? std::string{} : nlohmann::json(h).dump(); }

std::optional<headers> decode_headers(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return headers{};
  auto const parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_null()) return headers{};
  if (!parsed.is_object()) return std::nullopt;
  headers result;
  for (auto const& [name, value] : parsed.items()) {
    if (value.is_null()) continue;
    if (!value.is_string()) return std::nullopt;
    result.emplace(name, value.get<std::string>());
  }
  return result;
}

}  // namespace outbox::inline v0::spi
