#include <outbox/version.hpp>

#define OUTBOX_TEXT_OF(x) #x
#define OUTBOX_TEXT(x) OUTBOX_TEXT_OF(x)

namespace outbox::inline v0 {

std::string_view version() noexcept {
  return OUTBOX_TEXT(OUTBOX_VERSION_MAJOR) "." OUTBOX_TEXT(OUTBOX_VERSION_MINOR) "." OUTBOX_TEXT(OUTBOX_VERSION_PATCH);
}

}  // namespace outbox::inline v0
