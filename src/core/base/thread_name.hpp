// Names of threads, as top, ps and debuggers show them.
#pragma once

#include <pthread.h>

namespace outbox::inline v0::core {

/// Names the calling thread. Linux keeps 15 characters and takes nothing longer. Does nothing on other systems.
inline void set_thread_name([[maybe_unused]] char const* name) noexcept {
#ifdef __linux__
  ::pthread_setname_np(::pthread_self(), name);
#endif
}

}  // namespace outbox::inline v0::core
