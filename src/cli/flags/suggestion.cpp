#include "cli/flags/suggestion.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace larder {

namespace {

// Optimal string alignment: the Levenshtein distance, with a swap of adjacent letters as one edit.
size_t distance(std::string_view a, std::string_view b) {
    std::vector<size_t> before;
    std::vector<size_t> last(b.size() + 1);
    std::iota(last.begin(), last.end(), size_t{0});
    for (size_t i = 1; i <= a.size(); i++) {
        std::vector<size_t> row(b.size() + 1, i);
        for (size_t j = 1; j <= b.size(); j++) {
            const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        before = std::exchange(last, std::move(row));
    }
    return last[b.size()];
}

// A shorter name is the beginning of too many words.
constexpr size_t beginning_min = 6;

std::string did_you_mean(const std::string &name) { return name.empty() ? "" : fmt::format("did you mean {}? ", name); }

} // namespace

std::string nearest_name(std::string_view word, const std::vector<std::string> &names) {
    std::string nearest;
    size_t least = std::max<size_t>(1, std::min<size_t>(word.size() / 3, 3)) + 1;
    for (const std::string &name : names) {
        if (const size_t steps = distance(word, name); steps < least) {
            least = steps;
            nearest = name;
        }
    }
    if (nearest.empty()) {
        for (const std::string &name : names) {
            if (name.size() >= beginning_min && name.size() > nearest.size() && word.starts_with(name)) {
                nearest = name; // --temp for --temperature
            }
        }
    }
    return nearest;
}

std::string flag_suggestion(const CLI::App &command, std::string_view argument) {
    std::vector<std::string> names;
    for (const CLI::Option *option : command.get_options()) {
        for (const std::string &name : option->get_lnames()) {
            names.push_back("--" + name);
        }
    }
    return did_you_mean(nearest_name(argument.substr(0, argument.find('=')), names));
}

std::string command_suggestion(const CLI::App &app, std::string_view word) {
    std::vector<std::string> names;
    for (const CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; })) {
        if (!command->get_group().empty()) { // an empty group hides the command
            names.push_back(command->get_name());
        }
    }
    return did_you_mean(nearest_name(word, names));
}

} // namespace larder
