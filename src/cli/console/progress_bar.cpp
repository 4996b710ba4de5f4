#include "cli/console/progress_bar.h"
#include "cli/console/terminal.h"

#include "base/bytes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace larder {

std::function<void(uint64_t, uint64_t)> progress_bar() {
    if (isatty(STDERR_FILENO) == 0) {
        return {};
    }
    return [shown = uint64_t{101}](uint64_t bytes_done, uint64_t bytes_total) mutable {
        const uint64_t percent = bytes_total == 0 ? 100 : bytes_done * 100 / bytes_total;
        if (percent == shown) {
            return;
        }
        shown = percent;
        if (bytes_done >= bytes_total) {
            say("\r\033[K");
            return;
        }
        say("\rloading resident weights [{:<40}] {} of {}\033[K", std::string(percent * 40 / 100, '='),
            format_bytes(bytes_done), format_bytes(bytes_total));
    };
}

} // namespace larder
