// trace.h — routing traces: the experts that a model's router chose for each token, layer by layer.
//
// Three formats are read. The first line of a file distinguishes them:
//   - larder's own: JSON lines. A header {"larder_trace":1, "architecture":…, "experts":…, "top_k":…, "layers":[…]},
//     then one line per token {"tok":0, "phase":"prefill"|"decode", "layers":[[ids of layer 0], …]}.
//   - JSON lines without a header: one line per token {"tok":0, "layers":[[ids], …]}; every token is decode.
//   - route_trace v1: CSV of BigMoeOnEdge: turn,phase,step,layer,slot,expert,… (phase 0 prefill, 1 decode).
// docs/traces.md describes the first format in detail.
//
// Threads: plain data; a TraceWriter belongs to one thread.
// Errors: Error(io) if a file cannot be read or written, Error(model) that names file and line if it is not a trace.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace larder {

enum class TracePhase : uint8_t { prefill, decode };

struct TraceToken {
    TracePhase phase = TracePhase::decode;
    // experts[layer * top_k + k]; `layer` counts the routed layers of the model only. -1: no expert.
    std::vector<int32_t> experts;
};

struct RoutingTrace {
    std::string name;         // of the file, or the parameters of a synthetic trace
    std::string architecture; // empty if the format does not contain it
    uint32_t n_layer = 0;     // routed layers
    uint32_t n_expert = 0;    // per layer; the largest id + 1 if the format does not contain it
    uint32_t top_k = 0;
    std::vector<uint32_t> layers; // the model's numbers of the routed layers; 0, 1, … if the format has none
    std::vector<TraceToken> tokens;
};

// A trace has at least one token. A token never names an expert twice in a layer.
RoutingTrace read_trace(const std::string &path);

// A synthetic trace with given properties, for use without a recorded one. In each layer experts are drawn without
// repetition from a Zipf distribution over a random order of the layer's experts. With probability `reuse`, an expert
// is instead one that the previous token used (the effective rate is higher, because a drawn expert may be one of these
// too). Deterministic in `seed`. Throws Error(usage) for sizes that no model has.
struct SyntheticTrace {
    uint32_t n_layer = 0;
    uint32_t n_expert = 0;
    uint32_t top_k = 0;
    uint32_t n_token = 0;
    double skew = 0.8; // exponent of the Zipf distribution; 0 is uniform
    double reuse = 0.3;
    uint64_t seed = 1;
};
RoutingTrace synthesise_trace(const SyntheticTrace &wanted);

// With these values a synthetic trace has about the hit rates of the two recorded ones of docs/replacement.md, if it
// has their shapes (tests/lab/replay/claims_test.cpp). For estimates without a recorded trace.
inline constexpr double skew_like_real = 0.9;
inline constexpr double reuse_like_real = 0.4;

// Writes a trace token by token in larder's own format. After close() the system has all of the data, or Error(io) was
// thrown. Without close() the destructor keeps what was written so far and reports no error.
class TraceWriter {
  public:
    // `layers`: the model's numbers of its routed layers, for the header. Throws Error(io).
    TraceWriter(const std::string &path, const std::string &architecture, uint32_t n_expert, uint32_t top_k,
                std::span<const uint32_t> layers);
    ~TraceWriter();
    TraceWriter(const TraceWriter &) = delete;
    TraceWriter &operator=(const TraceWriter &) = delete;

    void write(const TraceToken &token);
    void close();

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace larder
