// residency_flags.h — --residency, and what only one of its values takes (docs/residency.md).
#pragma once

#include "engine/engine.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace larder {

std::vector<std::string> residency_names();
Residency residency_of(const std::string &name); // one of those

struct PageFlags {
    std::optional<uint32_t> hot_tokens; // absent: the default
    std::optional<std::string> evict;
    [[nodiscard]] bool given() const { return hot_tokens || evict; }
};

// Adds --hot-tokens and --page-evict.
void add_page_flags(CLI::App &command, PageFlags &flags);
PagerOptions pager_options(const PageFlags &flags);

// The same flags as arguments for another larder process.
std::vector<std::string> as_arguments(const PageFlags &flags);

// Throws Error(usage) for flags that this residency would not heed, each by its name: `ram`, `reserve` and `arena` are
// what they said, empty if they were not given.
void refuse_unheeded(Residency residency, const PageFlags &page, const std::string &ram, const std::string &reserve,
                     const std::string &arena);

} // namespace larder
