// larder probe: measures memory, and the disk with larder's kind of reads, and computes what both mean for a model.
#include "lab/probe/probe.h"
#include "base/bytes.h"
#include "base/error.h"
#include "cli/bench/slice_rate.h"
#include "cli/command.h"
#include "cli/console/terminal.h"
#include "cli/flags/model_flags.h"
#include "cli/probe/report.h"
#include "cli/probe/target.h"
#include "machine/cpus.h"
#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>

namespace larder {

namespace {

struct ProbeFlags {
    std::string path;
    std::vector<std::string> sizes;
    std::vector<uint32_t> depths = {1, 2, 4, 8, 16};
    std::string temporary_size; // empty: the default
    double seconds = 5;
    uint32_t threads = 0;
    uint64_t seed = 1;
    ReaderOptions reader;
    std::string output = "md";
};

// For a file that is not a model: sizes near the slices of most models, as far as they fit into the file.
std::vector<uint64_t> default_sizes(uint64_t bytes) {
    std::vector<uint64_t> sizes = {256 * KiB, MiB, 4 * MiB};
    std::erase_if(sizes, [bytes](uint64_t size) { return size > bytes; });
    return sizes.empty() ? std::vector<uint64_t>{256 * KiB} : sizes; // the probe reports that this size does not fit
}

TemporarySize temporary_size(const ProbeFlags &flags) {
    TemporarySize size;
    if (!flags.temporary_size.empty()) {
        size.wanted_bytes = parse_bytes(flags.temporary_size, "--size");
        size.demanded = true;
    }
    for (const std::string &text : flags.sizes) {
        size.least_bytes = std::max(size.least_bytes, align_up(parse_bytes(text, "--sizes"), direct_io_alignment));
    }
    if (flags.sizes.empty()) {
        size.least_bytes = default_sizes(0).front();
    }
    return size;
}

std::vector<uint64_t> sizes_of(const ProbeFlags &flags, const ProbeTarget &target) {
    std::vector<uint64_t> sizes;
    for (const std::string &size : flags.sizes) {
        sizes.push_back(parse_bytes(size, "--sizes"));
    }
    if (sizes.empty() && target.layout) {
        sizes = slice_read_bytes(*target.layout);
    }
    return sizes.empty() ? default_sizes(target.bytes) : sizes;
}

// Much larger than the processor's caches, and small enough not to make memory short.
uint64_t memory_probe_bytes() { return std::min<uint64_t>(256 * MiB, probe_machine().usable_bytes / 4); }

int probe(const ProbeFlags &flags) {
    constexpr double memory_seconds_share = 0.2;
    ProbeResult result;
    result.target = open_probe_target(flags.path, temporary_size(flags));
    DiskProbe wanted;
    wanted.paths = result.target.paths;
    wanted.request_bytes = sizes_of(flags, result.target);
    wanted.depths = flags.depths;
    wanted.reader = flags.reader;
    wanted.seed = flags.seed;
    const auto n_sample = static_cast<double>(2 * wanted.request_bytes.size() * wanted.depths.size());
    wanted.seconds_per_sample = flags.seconds * (1 - memory_seconds_share) / n_sample;
    try {
        result.disk = probe_disk(wanted);
    } catch (const Error &error) {
        throw Error(error.kind(), with_names(result.target, error.message()), error.remedy());
    }

    const uint32_t threads = flags.threads > 0 ? flags.threads : usable_cpus().processors;
    const uint32_t n_memory_sample = static_cast<uint32_t>(std::bit_width(threads)) + 1;
    result.memory = probe_memory(threads, memory_probe_bytes(), flags.seconds * memory_seconds_share / n_memory_sample);
    if (result.target.layout && flags.sizes.empty() && !result.target.layout->expert_tensors.empty()) {
        result.verdict = verdict_of(*result.target.layout, result.disk, result.memory);
    }
    print_now(flags.output == "json" ? probe_json(result) : probe_markdown(result));
    return 0;
}

} // namespace

void add_probe(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<ProbeFlags>();
    CLI::App *command =
        app.add_subcommand("probe", "measure a disk with the reads that larder makes, and measure memory");
    command
        ->add_option("path", flags->path,
                     "a model, any other file, or a directory (larder writes a temporary file there)")
        ->required();
    command
        ->add_option("--sizes", flags->sizes,
                     "sizes of the reads, like 256K,1M (default: the sizes of the model's slices)")
        ->delimiter(',')
        ->take_all();
    command->add_option("--depths", flags->depths, "numbers of reads in flight")
        ->delimiter(',')
        ->take_all()
        ->capture_default_str();
    command->add_option("--size", flags->temporary_size,
                        "size of the temporary file in a directory; at most half of the free space (default: 512M)");
    command->add_option("--seconds", flags->seconds, "total time of all samples")
        ->check(CLI::Range(0.01, 3600.0))
        ->capture_default_str();
    command->add_option("-t,--threads", flags->threads, "maximum number of threads that read memory (default: all)")
        ->check(CLI::Range(0U, 4096U));
    command->add_option("--seed", flags->seed, "seed of the order of random reads")->capture_default_str();
    add_output_flag(*command, flags->output);
    add_reader_flags(*command, flags->reader);
    command->callback([flags, &body] { body = [flags] { return probe(*flags); }; });
}

} // namespace larder
