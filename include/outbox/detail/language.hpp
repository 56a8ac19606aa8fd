// The language that the headers are written in. Every header includes this, by its export macros, before it uses it.
#pragma once

#if defined(_MSVC_LANG)
#define OUTBOX_LANGUAGE _MSVC_LANG
#else
#define OUTBOX_LANGUAGE __cplusplus
#endif

#if OUTBOX_LANGUAGE < 202002L
#error "outbox needs C++20: compile with -std=c++20, or in CMake target_compile_features(<target> PRIVATE cxx_std_20)"
#endif

#undef OUTBOX_LANGUAGE
