// residency_flags.h — --residency, and flags that apply to only one of its values (docs/residency.md).
#pragma once

#include "lab/residency/residency.h"
#include "session/open_model.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace larder {

std::vector<std::string> residency_names();
Residency residency_of(const std::string &name); // `name` must be one of the residencies

// Flags of residency page. Absent if not given.
struct PageFlags {
    std::optional<uint32_t> hot_tokens;
    std::optional<PageEvict> evict;
    [[nodiscard]] bool given() const { return hot_tokens || evict; }
    [[nodiscard]] PagerOptions options() const;
};

// Adds --residency with one value.
void add_residency_flag(CLI::App &command, Residency &residency);
// Adds --hot-tokens and --page-evict.
void add_page_flags(CLI::App &command, PageFlags &flags);

// Throws Error(usage), naming each, for flags that this residency would ignore.
void refuse_unheeded(Residency residency, const PageFlags &page, const OpenOptions &options);

} // namespace larder
