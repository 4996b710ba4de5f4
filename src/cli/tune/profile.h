// profile.h — what `larder tune` found for a model on this machine, kept where `larder run` finds it.
//
// One JSON file a model and budget in $XDG_CACHE_HOME/larder/profiles (~/.cache without it). The model is known by its
// metadata's account, not by its path: a copy or a moved file has the same profile. The file names the processors it
// was measured with, and is not used with others.
#pragma once

#include "cli/flags/model_flags.h"
#include "lab/tune/tune.h"
#include "layout/layout.h"

#include <map>
#include <optional>
#include <string>

namespace larder {

// What besides the context decides how much memory is left for ubatch and arena: by flag, as text.
using MemoryFlags = std::map<std::string, std::string>;
MemoryFlags memory_flags(const OpenOptions &options);

struct TuneProfile {
    Tuning tuning;
    double seconds = 0;      // of the job it was tuned for
    std::string job;         // as bench names it, "pp128+tg32"
    uint32_t ctx_tokens = 0; // it was tuned with
    MemoryFlags memory;      // it was tuned with
    uint32_t processors = 0; // this process could use
    std::string ram;         // as given to tune; empty: what the machine could give
};

// Whether there is a profile of any model where this user has them.
bool any_profile();
// Where the profile of a model under a budget lies, whether it exists or not. Throws Error(io) for a user without a
// home.
std::string profile_path(const ModelLayout &layout, const Budget &budget);

// Makes the folder of the profile. Throws Error(io) if write_profile() would; whatever is there stays as it is.
void check_profile_writable(const std::string &path);
// Throws Error(io).
void write_profile(const std::string &path, const ModelLayout &layout, const TuneProfile &profile);
// Nothing where there is none, or where it is for other processors. Throws Error(io) that says what is wrong with it
// where it is no profile of this model, or holds what no flag would take.
std::optional<TuneProfile> read_profile(const std::string &path, const ModelLayout &layout);

struct AppliedProfile {
    bool any = false; // something was filled in
    std::string note; // for the user; may be empty
};
// Fills in what the user left open of `options`. Ubatch and arena are left out where memory is shared out otherwise
// than in the trials: with a longer context (`ctx_tokens` is the one to be) or other memory flags.
AppliedProfile apply_profile(const TuneProfile &profile, const std::string &path, uint32_t ctx_tokens,
                             OpenOptions &options);

uint32_t usable_processors();

} // namespace larder
