// check.h — always-on checks of larder's own invariants.
//
// LARDER_CHECK is for what only a bug in larder can break; what the world can break is an Error (error.h). It stays on
// in release builds: a wrong slot is a wrong token, and stopping is better than that.
#pragma once

namespace larder {

[[noreturn]] void check_failed(const char *condition, const char *file, int line) noexcept;

} // namespace larder

#define LARDER_CHECK(condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) [[unlikely]] {                                                                               \
            ::larder::check_failed(#condition, __FILE__, __LINE__);                                                    \
        }                                                                                                              \
    } while (false)
