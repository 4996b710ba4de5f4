#include "cli/child/side.h"

#include "base/error.h"
#include "cli/console/terminal.h"

namespace larder {

void tell(const char *what, nlohmann::ordered_json value) {
    const nlohmann::ordered_json line = {{what, std::move(value)}};
    print_now(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

int run_side(const std::function<void()> &measure) {
    try {
        measure();
        return 0;
    } catch (const Error &error) {
        tell("error", error.what());
        return exit_code(error.kind());
    }
}

} // namespace larder
