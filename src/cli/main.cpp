// The larder program: parses the command line, runs the chosen subcommand, reports errors in one line.
#include "base/error.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace {

int report(const larder::Error &error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return larder::exit_code(error.kind());
}

} // namespace

int main(int argc, char **argv) {
    CLI::App app{"larder runs Mixture-of-Experts language models (GGUF) that are bigger than RAM.\n"
                 "Resident weights stay in RAM, routed experts are read from the SSD when the router asks for them.",
                 "larder"};
    app.set_version_flag("--version", fmt::format("larder {} (llama.cpp {})", LARDER_VERSION, larder::llama_version()));
    app.require_subcommand(1);
    app.get_formatter()->column_width(36);

    larder::CommandBody body;
    larder::add_run(app, body);
    larder::add_inspect(app, body);
    larder::add_verify(app, body);

    try {
        std::vector<std::string> arguments = larder::with_long_names(argc, argv);
        std::reverse(arguments.begin(), arguments.end()); // CLI11 takes them from the back
        app.parse(std::move(arguments));
        return body();
    } catch (const CLI::ParseError &error) {
        return app.exit(error) == 0 ? 0 : larder::exit_code(larder::ErrorKind::usage);
    } catch (const larder::Error &error) {
        return report(error);
    } catch (const std::bad_alloc &) {
        return report({larder::ErrorKind::io, "out of memory", "lower --ram or -c"});
    } catch (const std::exception &error) {
        return report({larder::ErrorKind::engine, error.what()});
    }
}
