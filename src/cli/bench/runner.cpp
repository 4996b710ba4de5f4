#include "cli/bench/runner.h"

#include "base/error.h"
#include "cli/bench/side.h"

#include <fmt/format.h>

#include <csignal>

namespace larder {

namespace {

std::vector<std::string> side_arguments(const BenchFlags &flags, const BenchRow &row, uint64_t first,
                                        uint32_t repetitions) {
    std::vector<std::string> arguments = {"bench-side"};
    const std::vector<std::string> engine = as_arguments(flags.engine);
    arguments.insert(arguments.end(), engine.begin(), engine.end());
    const auto add = [&arguments](const char *name, uint64_t value) {
        arguments.insert(arguments.end(), {name, std::to_string(value)});
    };
    add("--batch-size", flags.engine.options.batch_tokens);
    add("--n-prompt", row.test.n_prompt);
    add("--n-gen", row.test.n_gen);
    add("--n-depth", row.test.depth);
    add("--seed", flags.seed);
    add("--first", first);
    add("--repetitions", repetitions);
    if (!flags.prompt_file.empty()) {
        arguments.push_back("--file=" + flags.prompt_file);
    } else if (!flags.prompt.empty()) {
        arguments.push_back("--prompt=" + flags.prompt);
    }
    arguments.insert(arguments.end(), {"--residency", std::string(to_string(row.residency))});
    if (row.residency == Residency::page) {
        const std::vector<std::string> page = as_arguments(flags.page);
        arguments.insert(arguments.end(), page.begin(), page.end());
    }
    if (!row.ram.empty()) {
        arguments.insert(arguments.end(), {"--ram", row.ram});
    }
    if (flags.cold) {
        arguments.emplace_back("--cold");
    } else {
        arguments.emplace_back("--go-on");
        if (!flags.no_warmup) {
            arguments.emplace_back("--warmup");
        }
    }
    return arguments;
}

} // namespace

void BenchRunner::take_line(BenchRow &row, const std::string &line) const {
    const auto json = nlohmann::ordered_json::parse(line, nullptr, false);
    if (json.is_discarded()) {
        return; // it died in the middle of a line
    }
    if (json.contains("repetition")) {
        row.repetitions.push_back(repetition_from(json.at("repetition")));
    } else if (json.contains("figures")) {
        row.figures = json.at("figures");
    } else if (json.contains("notice")) {
        row.notice = json.at("notice").get<std::string>();
    } else if (json.contains("error")) {
        row.error = json.at("error").get<std::string>();
    }
}

bool BenchRunner::run_side(BenchRow &row, uint64_t first, uint32_t repetitions,
                           const std::function<void(uint32_t)> &done) {
    ChildProcess child(side_arguments(flags_, row, first, repetitions));
    {
        const std::lock_guard lock(child_mutex_);
        child_ = &child;
    }
    if (stopped_) { // before stop() could see the child
        child.terminate();
    }
    for (std::string line; child.read_line(line);) {
        const size_t before = row.repetitions.size();
        take_line(row, line);
        if (row.repetitions.size() > before && done) {
            done(static_cast<uint32_t>(row.repetitions.size()));
        }
    }
    {
        const std::lock_guard lock(child_mutex_);
        child_ = nullptr;
    }
    row.exit_code = child.wait();
    if (row.exit_code == 128 + SIGINT || row.exit_code == 128 + SIGTERM) {
        stopped_ = true; // Ctrl-C on a terminal reaches all processes
    }
    if (row.exit_code != 0 && row.error.empty()) {
        row.error = row.exit_code > 128 ? fmt::format("killed by signal {}", row.exit_code - 128)
                                        : fmt::format("failed with exit code {}", row.exit_code);
    }
    return row.error.empty();
}

void BenchRunner::measure(BenchRow &row, const std::function<void(uint32_t done)> &after_repetition) {
    if (!flags_.cold) {
        run_side(row, 1, flags_.repetitions, after_repetition);
        return;
    }
    for (uint32_t i = 1; i <= flags_.repetitions && !stopped_; i++) {
        if (!run_side(row, i, 1, after_repetition)) {
            return;
        }
    }
}

void BenchRunner::stop() {
    stopped_ = true;
    const std::lock_guard lock(child_mutex_);
    if (child_ != nullptr) {
        child_->terminate();
    }
}

} // namespace larder
