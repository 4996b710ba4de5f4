#include "cli/probe/report.h"

#include "base/bytes.h"
#include "cli/bench/slice_rate.h"
#include "layout/account.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace larder {

namespace {

std::string rate(double bytes_per_second) { return format_bytes(static_cast<uint64_t>(bytes_per_second)) + "/s"; }

double best_memory(const std::vector<MemorySample> &memory) {
    double best = 0;
    for (const MemorySample &sample : memory) {
        best = std::max(best, sample.bytes_per_second);
    }
    return best;
}

// All resident weights except the embedding table, of which a token needs one row. Includes the table if it is also the
// output matrix.
uint64_t token_memory_bytes(const ModelLayout &layout) {
    uint64_t embedding = 0;
    uint64_t head = 0;
    for (const auto &[kind, bytes] : account_of(layout).resident_by_kind) {
        embedding += kind == TensorKind::embedding ? bytes : 0;
        head += kind == TensorKind::head ? bytes : 0;
    }
    return layout.resident_bytes - (head > 0 ? embedding : 0) + layout.token_bytes;
}

std::string verdict_line(const ProbeResult &result) {
    const char *const of = result.disk.reader.in_memory ? "verdict (RAM, not a disk)" : "verdict";
    if (!result.verdict) {
        const DiskSample *best = nullptr;
        for (const DiskSample &sample : result.disk.samples) {
            if (sample.random && (best == nullptr || sample.bytes_per_second > best->bytes_per_second)) {
                best = &sample;
            }
        }
        return fmt::format(
            "{}: random reads run at up to {}, with {} per read and {} in flight; memory reads run at {}\n", of,
            rate(best->bytes_per_second), format_bytes(best->request_bytes), best->depth,
            rate(best_memory(result.memory)));
    }
    const ProbeVerdict &verdict = *result.verdict;
    const std::string limit = verdict.crossing_hit_rate <= 0
                                  ? "memory is the limit at every hit rate"
                                  : fmt::format("the disk is the limit up to a hit rate of {:.0f} %, memory above",
                                                100 * verdict.crossing_hit_rate);
    return fmt::format(
        "{}: this model's slices are read at {} at the best depth, and a token uses {}: at most {:.2f} tok/s without "
        "hits, {:.2f} at a hit rate of {:.0f} %; memory allows {:.2f} ({} per token at {}): {}\n",
        of, rate(verdict.slice_bytes_per_second), format_bytes(verdict.token_read_bytes), verdict.disk_tok_s_no_hits,
        verdict.disk_tok_s_typical, 100 * typical_hit_rate, verdict.memory_tok_s,
        format_bytes(verdict.token_memory_bytes), rate(verdict.memory_bytes_per_second), limit);
}

std::string cached(const DiskSample &sample, bool direct_io) {
    if (direct_io) {
        return "not used";
    }
    return sample.cached_bytes ? format_bytes(*sample.cached_bytes) : "unknown";
}

std::string way_of_reading(const ReaderInfo &reader) {
    if (reader.in_memory) {
        return "RAM (tmpfs), not a disk";
    }
    return reader.direct_io ? "direct I/O (O_DIRECT)" : "through the page cache";
}

} // namespace

ProbeVerdict verdict_of(const ModelLayout &layout, const DiskReport &disk, const std::vector<MemorySample> &memory) {
    ProbeVerdict verdict;
    verdict.slice_bytes_per_second = slice_rate(layout, disk);
    verdict.memory_bytes_per_second = best_memory(memory);
    verdict.token_read_bytes = token_read_bytes(layout);
    verdict.token_memory_bytes = token_memory_bytes(layout);
    verdict.disk_tok_s_no_hits = verdict.slice_bytes_per_second / static_cast<double>(verdict.token_read_bytes);
    verdict.disk_tok_s_typical = verdict.disk_tok_s_no_hits / (1 - typical_hit_rate);
    verdict.memory_tok_s = verdict.memory_bytes_per_second / static_cast<double>(verdict.token_memory_bytes);
    verdict.crossing_hit_rate = std::max(0.0, 1 - verdict.disk_tok_s_no_hits / verdict.memory_tok_s);
    return verdict;
}

std::string probe_markdown(const ProbeResult &result) {
    const ReaderInfo &reader = result.disk.reader;
    std::string text = fmt::format("{}: {}, {}, {}\n", result.target.name, format_bytes(result.target.bytes),
                                   reader.backend, way_of_reading(reader));
    if (!reader.notice.empty()) {
        text += fmt::format("note: {}\n", with_names(result.target, result.disk.reader.notice));
    }
    for (const std::string &notice : result.target.notices) {
        text += fmt::format("note: {}\n", notice);
    }
    text += fmt::format("\n| {:>12} | {:>5} | {:<10} | {:>15} | {:>10} | {:>10} | {:>11} | {:>11} |\n", "read of",
                        "depth", "order", "rate", "median µs", "p99 µs", "bytes read", "page cache");
    text += "| -----------: | ----: | :--------- | --------------: | ---------: | ---------: | ----------: | "
            "----------: |\n";
    for (const DiskSample &sample : result.disk.samples) {
        text += fmt::format("| {:>12} | {:>5} | {:<10} | {:>15} | {:>10.0f} | {:>10.0f} | {:>11} | {:>11} |\n",
                            format_bytes(sample.request_bytes), sample.depth, sample.random ? "random" : "sequential",
                            rate(sample.bytes_per_second), sample.latency_us_median, sample.latency_us_p99,
                            format_bytes(sample.bytes_read), cached(sample, reader.direct_io));
    }
    text += fmt::format("\n| {:>7} | {:>15} |\n| ------: | --------------: |\n", "threads", "memory read");
    for (const MemorySample &sample : result.memory) {
        text += fmt::format("| {:>7} | {:>15} |\n", sample.threads, rate(sample.bytes_per_second));
    }
    return text + "\n" + verdict_line(result);
}

std::string probe_json(const ProbeResult &result) {
    nlohmann::ordered_json json = {{"path", result.target.name},
                                   {"bytes", result.target.bytes},
                                   {"io_backend", result.disk.reader.backend},
                                   {"direct_io", result.disk.reader.direct_io},
                                   {"in_memory", result.disk.reader.in_memory},
                                   {"notices", result.target.notices},
                                   {"disk", nlohmann::ordered_json::array()},
                                   {"memory", nlohmann::ordered_json::array()}};
    if (!result.disk.reader.notice.empty()) {
        json["notices"].push_back(with_names(result.target, result.disk.reader.notice));
    }
    for (const DiskSample &sample : result.disk.samples) {
        nlohmann::ordered_json row = {{"request_bytes", sample.request_bytes},
                                      {"depth", sample.depth},
                                      {"random", sample.random},
                                      {"bytes_per_second", sample.bytes_per_second},
                                      {"latency_us_median", sample.latency_us_median},
                                      {"latency_us_p99", sample.latency_us_p99},
                                      {"bytes_read", sample.bytes_read},
                                      {"cached_bytes", nullptr}};
        if (sample.cached_bytes) {
            row["cached_bytes"] = *sample.cached_bytes;
        }
        json["disk"].push_back(std::move(row));
    }
    for (const MemorySample &sample : result.memory) {
        json["memory"].push_back({{"threads", sample.threads}, {"bytes_per_second", sample.bytes_per_second}});
    }
    json["verdict"] = nullptr;
    if (const std::optional<ProbeVerdict> &verdict = result.verdict) {
        json["verdict"] = {{"slice_bytes_per_second", verdict->slice_bytes_per_second},
                           {"memory_bytes_per_second", verdict->memory_bytes_per_second},
                           {"token_read_bytes", verdict->token_read_bytes},
                           {"token_memory_bytes", verdict->token_memory_bytes},
                           {"disk_tok_s_no_hits", verdict->disk_tok_s_no_hits},
                           {"typical_hit_rate", typical_hit_rate},
                           {"disk_tok_s_typical", verdict->disk_tok_s_typical},
                           {"memory_tok_s", verdict->memory_tok_s},
                           {"crossing_hit_rate", verdict->crossing_hit_rate}};
    }
    return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace larder
