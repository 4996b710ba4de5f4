// residency_flags.h — --residency, and what only one of its values takes (docs/residency.md).
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
Residency residency_of(const std::string &name); // one of those

// What only residency page takes: absent where it was not given.
struct PageFlags {
    std::optional<uint32_t> hot_tokens;
    std::optional<PageEvict> evict;
    [[nodiscard]] bool given() const { return hot_tokens || evict; }
    [[nodiscard]] PagerOptions options() const;
};

// Adds --residency, one value.
void add_residency_flag(CLI::App &command, Residency &residency);
// Adds --hot-tokens and --page-evict.
void add_page_flags(CLI::App &command, PageFlags &flags);

// Throws Error(usage) for flags that this residency would not heed, each by its name.
void refuse_unheeded(Residency residency, const PageFlags &page, const OpenOptions &options);

} // namespace larder
