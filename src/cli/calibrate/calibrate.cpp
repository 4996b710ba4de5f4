// larder calibrate: measures how much memory a model and a context take under one budget, for each of several reserves.
#include "base/bytes.h"
#include "base/error.h"
#include "cli/calibrate/report.h"
#include "cli/command.h"
#include "cli/console/terminal.h"
#include "cli/flags/model_flags.h"
#include "cli/worker/worker.h"
#include "machine/machine.h"
#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace larder {

namespace {

constexpr std::array<uint64_t, 4> shares_of_budget = {64, 32, 16, 8}; // the third value is the default

struct CalibrateFlags {
    OpenOptions open;
    Budget budget;
    std::vector<std::string> reserves;
    std::string output = "md";
};

std::vector<uint64_t> reserves_of(const CalibrateFlags &flags, uint64_t budget) {
    std::vector<uint64_t> reserves;
    for (const std::string &text : flags.reserves) {
        reserves.push_back(text == "0" ? 0 : parse_bytes(text, "--reserves"));
    }
    if (reserves.empty()) {
        for (const uint64_t part : shares_of_budget) {
            reserves.push_back(align_up(budget / part, MiB));
        }
    }
    std::ranges::sort(reserves);
    reserves.erase(std::unique(reserves.begin(), reserves.end()), reserves.end());
    return reserves;
}

CalibratedReserve measured_with(OpenOptions options, uint64_t budget, uint64_t reserve) {
    options.runtime.plan.budget_bytes = budget;
    options.runtime.plan.reserve_bytes = reserve;
    CalibratedReserve measured;
    measured.asked_bytes = reserve;
    Worker worker("calibrate", {{"open", to_json(options)}});
    while (const std::optional<Json> told = worker.next()) {
        measured.figures = told->at("figures");
    }
    if (const WorkerEnd end = worker.wait(); end.error) {
        measured.figures = nullptr;
        measured.error = end.error->what();
    }
    return measured;
}

int calibrate(const CalibrateFlags &flags) {
    const OpenOptions options = with_budget(flags.open, flags.budget);
    Calibration calibration;
    // Refuses a file that is not a model once, before all runs.
    calibration.model_path = open_layout(flags.open.model.path).files.front();
    calibration.budget_bytes = budget_of(options.runtime.plan, probe_machine("", other_claims()));
    for (const uint64_t reserve : reserves_of(flags, calibration.budget_bytes)) {
        calibration.reserves.push_back(measured_with(options, calibration.budget_bytes, reserve));
    }
    print_now(flags.output == "json" ? calibration_json(calibration) : calibration_table(calibration));
    if (smallest_reserve(calibration) != nullptr) {
        return 0;
    }
    throw Error(ErrorKind::budget,
                fmt::format("no reserve keeps the process within {}", format_bytes(calibration.budget_bytes)),
                "raise --ram, lower -c, or try other --reserves");
}

// --reserve sets a single reserve and would have no effect here.
void refuse_one_reserve(CLI::App &command) {
    command.get_option("--reserve")->group("")->check([](const std::string &text) -> std::string {
        throw Error(ErrorKind::usage, "--reserve: calibrate takes a list of reserves",
                    fmt::format("use --reserves, like --reserves {}", printable(text)));
    });
}

} // namespace

void add_calibrate(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<CalibrateFlags>();
    CLI::App *command = app.add_subcommand(
        "calibrate", "run a model briefly with each of several reserves, and print the memory that it used");
    const std::string memory = "Model and memory";
    add_budget_flag(*command, flags->budget);
    add_model_flags(*command, flags->open);
    refuse_one_reserve(*command);
    command
        ->add_option(
            "--reserves", flags->reserves,
            "reserves to try, like 256M,512M; each runs in its own process (default: 1/64 to 1/8 of the budget)")
        ->delimiter(',')
        ->take_all()
        ->group(memory);
    add_output_flag(*command, flags->output);
    command->callback([flags, &body] { body = [flags] { return calibrate(*flags); }; });
}

} // namespace larder
