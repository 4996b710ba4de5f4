#include "cli/tune/space.h"

#include "cli/tune/profile.h"

#include <algorithm>

namespace larder {

namespace {

template <typename Value> void add_once(std::vector<Value> &values, Value value) {
    if (std::ranges::find(values, value) == values.end()) {
        values.push_back(value);
    }
}

} // namespace

TuneSpace space_of(const OpenOptions &named, const StartingPoint &start) {
    TuneSpace space;
    const auto processors = usable_processors();
    space.threads = {start.threads};
    for (const uint32_t threads : {processors, processors / 2, start.threads / 2}) {
        if (named.model.context.threads == 0 && threads > 0) {
            add_once(space.threads, threads);
        }
    }
    space.ubatch_tokens = {start.ubatch_tokens};
    for (const uint32_t tokens : {1024U, 512U, 256U, 128U, 64U}) {
        if (named.model.context.ubatch_tokens == 0 && tokens <= start.ctx_tokens) {
            add_once(space.ubatch_tokens, tokens);
        }
    }
    space.arena_bytes = {0};
    for (const uint64_t part : {3U, 2U}) {
        const uint64_t bytes = start.arena_bytes / 4 * part;
        if (!named.runtime.plan.arena_bytes && bytes >= start.floor_bytes && bytes > 0) {
            space.arena_bytes.push_back(bytes);
        }
    }
    const uint32_t named_depth = named.runtime.reader.depth;
    space.io_depth = {named_depth > 0 ? named_depth : default_read_depth};
    for (const uint32_t depth : {16U, 4U}) {
        if (named_depth == 0 && start.arena_bytes > 0) {
            add_once(space.io_depth, depth);
        }
    }
    return space;
}

} // namespace larder
