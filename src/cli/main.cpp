// The larder program: parses the command line, runs the chosen subcommand, and reports errors in one line.
#include "base/error.h"
#include "cli/command.h"
#include "cli/console/terminal.h"
#include "cli/flags/short_names.h"
#include "cli/flags/suggestion.h"
#include "cli/worker/task.h"
#include "machine/out_of_memory.h"
#include "machine/process.h"
#include "runtime/runtime.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace {

int report(const larder::Error &error) {
    larder::say("error: {}\n", error.what());
    return larder::exit_code(error.kind());
}

// Reports an error in the command line in the same form as other errors.
int report(const CLI::ParseError &error, const CLI::App &app, const std::vector<std::string> &arguments) {
    constexpr size_t quoted = larder::quoted_characters_max;
    const std::vector<CLI::App *> chosen = app.get_subcommands();
    if (chosen.empty() && !arguments.empty() && !arguments.front().starts_with('-')) {
        return report({larder::ErrorKind::usage,
                       fmt::format("'{}' is not a command", larder::printable(arguments.front(), quoted)),
                       larder::command_suggestion(app, arguments.front()) + "see larder --help"});
    }
    const std::vector<std::string> left = chosen.empty() ? app.remaining() : chosen.front()->remaining();
    if (!left.empty() && left.front().starts_with('-')) {
        const CLI::App &command = chosen.empty() ? app : *chosen.front();
        const std::string name = chosen.empty() ? "larder" : "larder " + command.get_name();
        return report({larder::ErrorKind::usage,
                       fmt::format("{}: {} has no such flag", larder::printable(left.front(), quoted), name),
                       fmt::format("{}see {} --help", larder::flag_suggestion(command, left.front()), name)});
    }
    return report({larder::ErrorKind::usage, error.what(),
                   fmt::format("see larder{} --help", chosen.empty() ? "" : " " + chosen.front()->get_name())});
}

// Prints the text of --help or --version.
int print(const CLI::ParseError &request, const CLI::App &app) {
    std::ostringstream text;
    const int code = app.exit(request, text);
    try {
        larder::print_now(text.str());
    } catch (const larder::Error &error) {
        return report(error);
    }
    return code;
}

// larder's own code gets std::system_error only from starting threads.
larder::Error from_system(const std::system_error &error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
        return larder::no_thread(error.code());
    }
    return {larder::ErrorKind::io, error.what()};
}

} // namespace

int main(int argc, char **argv) {
    try {
        larder::set_up_process(argv);
    } catch (const larder::Error &error) {
        return report(error);
    }
    CLI::App app{"larder runs Mixture-of-Experts language models (GGUF) that are bigger than RAM.\n"
                 "The weights that every token needs stay in RAM. Routed experts are read from the SSD when the router "
                 "selects them.",
                 "larder"};
    app.set_version_flag("--version", fmt::format("larder {} (llama.cpp {})", LARDER_VERSION, larder::llama_version()));
    app.require_subcommand(1);
    app.formatter(larder::help_formatter()); // before the subcommands, which inherit it
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast); // as in llama.cpp

    larder::CommandBody body;
    larder::add_run(app, body);
    larder::add_inspect(app, body);
    larder::add_verify(app, body);
    larder::add_probe(app, body);
    larder::add_bench(app, body);
    larder::add_simulate(app, body);
    larder::add_tune(app, body);
    larder::add_plan(app, body);
    larder::add_calibrate(app, body);
    larder::add_worker(app, body);

    larder::fill_standard_streams();
    std::vector<std::string> arguments;
    try {
        arguments = larder::with_long_names(app, argc, argv);
        // CLI11 takes the arguments in reverse order.
        app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
        const int code = body();
        larder::print_now(""); // throws if earlier output could not be written
        return code;
    } catch (const CLI::ParseError &error) {
        return error.get_exit_code() == 0 ? print(error, app) : report(error, app, arguments);
    } catch (const larder::Error &error) {
        return report(error);
    } catch (const std::bad_alloc &) {
        return report(larder::out_of_memory());
    } catch (const std::system_error &error) {
        return report(from_system(error));
    } catch (const std::exception &error) {
        return report({larder::ErrorKind::engine, error.what()});
    }
}
