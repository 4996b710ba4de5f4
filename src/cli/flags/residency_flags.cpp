#include "cli/flags/residency_flags.h"

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

// `name` was checked to be one of them.
template <typename Values> auto named(const Values &values, const std::string &name) {
    return *std::ranges::find_if(values, [&](const auto value) { return to_string(value) == name; });
}

} // namespace

std::vector<std::string> residency_names() { return names_of(residencies); }
Residency residency_of(const std::string &name) { return named(residencies, name); }

void add_page_flags(CLI::App &command, PageFlags &flags) {
    const std::string group = "With --residency page";
    command
        .add_option("--hot-tokens", flags.hot_tokens,
                    "an expert that none of the last N tokens used is dropped (default: 8)")
        ->check(CLI::Range(1U, 1U << 24))
        ->group(group);
    command
        .add_option("--page-evict", flags.evict,
                    "how: madvise (out of the process), fadvise (out of the page cache), both or none (default: both)")
        ->check(CLI::IsMember(names_of(evicts)))
        ->group(group);
}

PagerOptions pager_options(const PageFlags &flags) {
    PagerOptions options;
    options.hot_tokens = flags.hot_tokens.value_or(options.hot_tokens);
    if (flags.evict) {
        options.evict = named(evicts, *flags.evict);
    }
    return options;
}

std::vector<std::string> as_arguments(const PageFlags &flags) {
    const PagerOptions options = pager_options(flags);
    return {"--hot-tokens", std::to_string(options.hot_tokens), "--page-evict", std::string(to_string(options.evict))};
}

void refuse_unheeded(Residency residency, const PageFlags &page, const std::string &ram, const std::string &reserve,
                     const std::string &arena) {
    if (residency != Residency::page && page.given()) {
        throw Error(ErrorKind::usage,
                    fmt::format("--hot-tokens, --page-evict: residency '{}' drops no pages", to_string(residency)),
                    "add --residency page, or leave them out");
    }
    for (const auto &[flag, value] : {std::pair{"--ram", ram}, {"--reserve", reserve}, {"--arena", arena}}) {
        if (residency != Residency::arena && !value.empty()) {
            throw Error(ErrorKind::usage,
                        fmt::format("{}: residency '{}' keeps no budget: the kernel decides what stays in RAM", flag,
                                    to_string(residency)),
                        fmt::format("leave out {}, or use --residency arena", flag));
        }
    }
}

} // namespace larder
