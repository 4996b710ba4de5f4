#include "cli/worker/task.h"

#include "base/error.h"
#include "cli/console/terminal.h"
#include "machine/out_of_memory.h"
#include "runtime/spec_json.h"

#include <array>
#include <iostream>
#include <iterator>
#include <new>
#include <string>
#include <utility>

namespace larder {

namespace {

using Task = void (*)(const Json &job);
constexpr std::array<std::pair<std::string_view, Task>, 4> tasks = {
    {{"bench", bench_task}, {"calibrate", calibrate_task}, {"plan", plan_task}, {"verify", verify_task}}};

int tell_error(const Error &error) {
    tell("error", to_json(error));
    return exit_code(error.kind());
}

void run_task(const Json &job) {
    const std::string name = job.at("task");
    for (const auto &[known, task] : tasks) {
        if (name == known) {
            task(job);
            return;
        }
    }
    throw Error(ErrorKind::usage, "'" + name + "' is not a worker task");
}

// Input from larder itself is always valid. Other input comes from a user who found this subcommand.
int work() {
    try {
        const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
        run_task(Json::parse(text));
        return 0;
    } catch (const Error &error) {
        return tell_error(error);
    } catch (const nlohmann::json::exception &error) {
        return tell_error({ErrorKind::usage, std::string("this is not a job for a worker: ") + error.what(),
                           "other larder commands start workers; see larder --help"});
    } catch (const std::bad_alloc &) {
        return tell_error(out_of_memory());
    }
}

} // namespace

void tell(const char *what, Json value) {
    const Json line = {{what, std::move(value)}};
    print_now(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

Json to_json(const OpenOptions &options) {
    return {{"model", to_json(options.model)}, {"runtime", to_json(options.runtime)}};
}

OpenOptions open_options_from(const Json &json) {
    OpenOptions options;
    options.model = model_spec_from(json.at("model"));
    options.runtime = runtime_options_from(json.at("runtime"));
    return options;
}

void add_worker(CLI::App &app, CommandBody &body) {
    CLI::App *command = app.add_subcommand("worker", "one task of another larder process")->group("");
    command->callback([&body] { body = work; });
}

} // namespace larder
