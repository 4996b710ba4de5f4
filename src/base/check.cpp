#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace larder {

void check_failed(const char *condition, const char *file, int line) noexcept {
    std::fprintf(stderr, "larder: internal error: %s does not hold (%s:%d); please report this\n", condition, file,
                 line);
    std::abort();
}

} // namespace larder
