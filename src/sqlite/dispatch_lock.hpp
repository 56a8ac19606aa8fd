// The dispatch lock of a SQLite store: a lock on a file beside the database, which the kernel gives back when the
// process ends, however it ends.
#pragma once

#include <functional>
#include <memory>
#include <outbox/spi/store.hpp>
#include <string>

namespace outbox::inline v0::sqlite {

/// Returns null if another node has it. `expire` is what `expire_others()` does.
[[nodiscard]] std::unique_ptr<spi::dispatch_lock> try_lock_file(std::string const& path,
                                                                std::function<std::size_t()> expire);

}  // namespace outbox::inline v0::sqlite
