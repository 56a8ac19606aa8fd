#include <outbox/result.hpp>

namespace outbox::inline v0 {

failure::failure(std::string const& reason, std::optional<std::chrono::milliseconds> after)
    : std::runtime_error{reason}, after_{after} {}
failure::~failure() = default;

permanent_failure::permanent_failure(std::string const& reason) : std::runtime_error{reason} {}
permanent_failure::~permanent_failure() = default;

}  // namespace outbox::inline v0
