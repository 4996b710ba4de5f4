// profile.h — the results of `larder tune` for a model on this machine, stored for `larder run`.
//
// There is one JSON file per model and budget in $XDG_CACHE_HOME/larder/profiles (default ~/.cache). The key is the
// account in the model's metadata, not its path, so a copied or moved file has the same profile. The file names the
// processors with which it was measured, and is used only with the same ones.
#pragma once

#include "cli/flags/model_flags.h"
#include "lab/tune/tune.h"
#include "layout/layout.h"

#include <map>
#include <optional>
#include <string>

namespace larder {

// The flags besides the context that determine how much memory is left for ubatch and arena, with their values.
using MemoryFlags = std::map<std::string, std::string>;
MemoryFlags memory_flags(const OpenOptions &options);

struct TuneProfile {
    Tuning tuning;
    double seconds = 0;      // of the tuned job
    std::string job;         // as bench names it, for example "pp128+tg32"
    uint32_t ctx_tokens = 0; // of the trials
    MemoryFlags memory;      // of the trials
    uint32_t processors = 0; // that the trials could use
    std::string ram;         // as given to tune; empty: what the machine gave
};

// Whether this user has a profile of any model.
bool any_profile();
// Path of the profile of a model and budget; the file need not exist. Throws Error(io) for a user without a home
// directory.
std::string profile_path(const ModelLayout &layout, const Budget &budget);

// Makes the folder of the profile. Throws Error(io) if write_profile() would. Does not change an existing file.
void check_profile_writable(const std::string &path);
// Throws Error(io).
void write_profile(const std::string &path, const ModelLayout &layout, const TuneProfile &profile);
// Empty if there is no profile, or if it is for other processors. Throws Error(io) with the reason if the file is not a
// profile of this model, or has values outside the flags' ranges.
std::optional<TuneProfile> read_profile(const std::string &path, const ModelLayout &layout);

struct AppliedProfile {
    bool any = false; // whether a value was filled in
    std::string note; // message for the user; may be empty
};
// Fills in the options that the user has not set. Skips ubatch and arena if memory is divided differently than in the
// trials: with a longer context (`ctx_tokens` is the planned one) or other memory flags.
AppliedProfile apply_profile(const TuneProfile &profile, const std::string &path, uint32_t ctx_tokens,
                             OpenOptions &options);

uint32_t usable_processors();

} // namespace larder
