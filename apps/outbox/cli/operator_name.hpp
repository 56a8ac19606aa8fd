// Who runs a verb, for the audit.
#pragma once

#include <string>

namespace outbox_tool {

/// "ann@host": the person behind sudo if there is one. At most 128 characters.
[[nodiscard]] std::string operator_name();

}  // namespace outbox_tool
