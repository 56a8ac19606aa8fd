// The version of the library, for the preprocessor and at run time.
#pragma once

#include <outbox/detail/core_export.hpp>
#include <string_view>

#define OUTBOX_VERSION_MAJOR 0
#define OUTBOX_VERSION_MINOR 1
#define OUTBOX_VERSION_PATCH 0

namespace outbox::inline v0 {

/// The version that was linked, as in "0.1.0". There is no ABI promise before 1.0.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view version() noexcept;

}  // namespace outbox::inline v0
