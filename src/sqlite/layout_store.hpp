// The SQLite store of a table of another shape.
#pragma once

#include <memory>
#include <outbox/sqlite.hpp>
#include <string>

namespace outbox::inline v0::sqlite {

/// Opens the store for `o.layout`. Throws `error` as `open()` does.
[[nodiscard]] std::shared_ptr<store> open_layout(std::string const& path, options o);

}  // namespace outbox::inline v0::sqlite
