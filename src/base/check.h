// check.h — checks of larder's own invariants.
//
// LARDER_CHECK is for conditions that only a bug in larder can violate. Conditions that users, files or the system can
// cause are an Error (error.h). The checks stay on in release builds: a wrong slot would give a wrong token, so the
// process ends instead.
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
