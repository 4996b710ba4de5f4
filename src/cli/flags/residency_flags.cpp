#include "cli/flags/residency_flags.h"

#include "base/error.h"
#include "cli/flags/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace larder {

namespace {

constexpr std::array residencies = {Residency::arena, Residency::page, Residency::stock};
constexpr std::array evicts = {PageEvict::both, PageEvict::madvise, PageEvict::fadvise, PageEvict::none};

template <typename Values> std::vector<std::string> names_of(const Values &values) {
    std::vector<std::string> names;
    for (const auto value : values) {
        names.emplace_back(to_string(value));
    }
    return names;
}

// `name` was already checked to be one of the values.
template <typename Values> auto named(const Values &values, const std::string &name) {
    return *std::ranges::find_if(values, [&](const auto value) { return to_string(value) == name; });
}

} // namespace

std::vector<std::string> residency_names() { return names_of(residencies); }
Residency residency_of(const std::string &name) { return named(residencies, name); }

PagerOptions PageFlags::options() const {
    PagerOptions options;
    options.hot_tokens = hot_tokens.value_or(options.hot_tokens);
    options.evict = evict.value_or(options.evict);
    return options;
}

void add_residency_flag(CLI::App &command, Residency &residency) {
    detail::add_text_option(command, "--residency",
                            "what decides which experts are in RAM: arena; for comparison, page (experts in a file "
                            "mapping) or stock (llama.cpp's own loader)",
                            "TEXT", [&residency](const std::string &text) { residency = residency_of(text); })
        ->check(CLI::IsMember(residency_names()))
        ->default_str("arena")
        ->group("Model and memory");
}

void add_page_flags(CLI::App &command, PageFlags &flags) {
    const std::string group = "With --residency page";
    detail::add_text_option(
        command, "--hot-tokens", "drop an expert if none of the last N tokens used it (default: 8)", "N",
        [&flags](const std::string &text) {
            flags.hot_tokens = static_cast<uint32_t>(parse_integer(text, "--hot-tokens", 1, 1 << 24));
        })
        ->group(group);
    detail::add_text_option(command, "--page-evict",
                            "how experts are dropped: madvise (from the process), fadvise (from the page cache), both "
                            "or none (default: both)",
                            "TEXT", [&flags](const std::string &text) { flags.evict = named(evicts, text); })
        ->check(CLI::IsMember(names_of(evicts)))
        ->group(group);
}

void refuse_unheeded(Residency residency, const PageFlags &page, const OpenOptions &options) {
    if (residency != Residency::page && page.given()) {
        throw Error(ErrorKind::usage,
                    fmt::format("--hot-tokens, --page-evict: residency '{}' drops no pages", to_string(residency)),
                    "add --residency page, or remove them");
    }
    const PlanOptions &plan = options.runtime.plan;
    for (const auto &[flag, given] : {std::pair{"--ram", plan.budget_bytes.has_value()},
                                      {"--reserve", plan.reserve_bytes.has_value()},
                                      {"--arena", plan.arena_bytes.has_value()}}) {
        if (residency != Residency::arena && given) {
            throw Error(ErrorKind::usage,
                        fmt::format("{}: residency '{}' has no budget: the kernel decides what stays in RAM", flag,
                                    to_string(residency)),
                        fmt::format("remove {}, or use --residency arena", flag));
        }
    }
}

} // namespace larder
