#include "cli/flags/short_names.h"

#include "base/error.h"
#include "cli/flags/suggestion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace larder {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> long_names = {{
    {"-no-cnv", "--raw"},
    {"-ub", "--ubatch-size"},
    {"-tb", "--threads-batch"},
    {"-fa", "--flash-attn"},
    {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},
    {"-sys", "--system-prompt"},
    {"-dio", "--direct-io"},
    {"-pg", "--n-prompt-gen"},
    {"-np", "--parallel"},
}};

constexpr std::array<std::string_view, 6> download_flags = {"-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "-mu"};
constexpr std::array<std::string_view, 3> gpu_flags = {"-ngl", "--gpu-layers", "--n-gpu-layers"};

void refuse_what_larder_cannot_have(std::string_view argument) {
    const std::string_view flag = argument.substr(0, argument.find('='));
    if (std::ranges::find(download_flags, flag) != download_flags.end()) {
        throw Error(ErrorKind::usage, fmt::format("{}: larder cannot download models", flag),
                    "download the GGUF first (e.g. with hf download), then use -m");
    }
    if (std::ranges::find(gpu_flags, flag) != gpu_flags.end()) {
        throw Error(ErrorKind::usage, fmt::format("{}: larder computes on the CPU only", flag),
                    fmt::format("remove {}", flag));
    }
}

// "-xyz", which CLI11 would parse as -x with the value "yz".
bool has_several_letters(std::string_view argument) {
    return argument.size() > 2 && argument[0] == '-' && std::isalpha(static_cast<unsigned char>(argument[1])) != 0 &&
           std::isalpha(static_cast<unsigned char>(argument[2])) != 0;
}

const CLI::App *command_named(const CLI::App &app, const std::string &name) {
    const auto found = app.get_subcommands([&name](const CLI::App *command) { return command->check_name(name); });
    return found.empty() ? nullptr : found.front();
}

bool takes_value(const CLI::App *command, const std::string &name) {
    const CLI::Option *option =
        command == nullptr || name.size() < 2 || name[0] != '-' ? nullptr : command->get_option_no_throw(name);
    return option != nullptr && option->get_items_expected_min() > 0;
}

class HelpFormatter : public CLI::Formatter {
  public:
    std::string make_option_name(const CLI::Option *option, bool is_positional) const override {
        std::string name = CLI::Formatter::make_option_name(option, is_positional);
        if (!is_positional) {
            for (const auto &[short_name, long_name] : long_names) {
                if (option->check_lname(std::string(long_name.substr(2)))) {
                    name.insert(0, fmt::format("{},", short_name));
                }
            }
        }
        return name;
    }
};

} // namespace

std::vector<std::string> with_long_names(const CLI::App &app, int argc, char **argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    const CLI::App *command = arguments.empty() ? nullptr : command_named(app, arguments.front());
    bool is_value = false; // of the previous option
    for (std::string &argument : arguments) {
        if (argument == "--") {
            break;
        }
        if (std::exchange(is_value, false)) {
            continue;
        }
        const auto *const known =
            std::ranges::find(long_names, argument, &std::pair<std::string_view, std::string_view>::first);
        if (known != long_names.end()) {
            argument = known->second;
            is_value = takes_value(command, argument);
            continue;
        }
        is_value = takes_value(command, argument);
        if (is_value) {
            continue;
        }
        refuse_what_larder_cannot_have(argument);
        if (has_several_letters(argument)) {
            const std::string name = command == nullptr ? "larder" : "larder " + command->get_name();
            throw Error(ErrorKind::usage,
                        fmt::format("{}: {} has no such flag", printable(argument, quoted_characters_max), name),
                        fmt::format("{}see {} --help",
                                    command == nullptr ? "" : flag_suggestion(*command, "-" + argument), name));
        }
    }
    return arguments;
}

std::shared_ptr<CLI::Formatter> help_formatter() {
    auto formatter = std::make_shared<HelpFormatter>();
    formatter->column_width(36);
    return formatter;
}

} // namespace larder
