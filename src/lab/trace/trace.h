// trace.h — routing traces: which experts a model's router chose for each token, layer by layer.
//
// Three formats are read, told apart by their first line:
//   larder's own      JSON lines: a header {"larder_trace":1, "architecture":…, "experts":…, "top_k":…, "layers":[…]},
//                     then one line a token {"tok":0, "phase":"prefill"|"decode", "layers":[[ids of layer 0], …]}
//   JSON lines        one line a token {"tok":0, "layers":[[ids], …]} without a header (every token is decode)
//   route_trace v1    CSV of BigMoeOnEdge: turn,phase,step,layer,slot,expert,… (phase 0 prefill, 1 decode)
// docs/traces.md describes the first byte by byte.
//
// Threads: plain data; a TraceWriter belongs to one thread.
// Errors: Error(io) when a file cannot be read or written, Error(model) naming file and line when it is not a trace.
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
    // experts[layer * top_k + k], layer counted among the routed layers of the model. -1: no expert.
    std::vector<int32_t> experts;
};

struct RoutingTrace {
    std::string name;         // of the file, or what was synthesised
    std::string architecture; // empty if the format does not say
    uint32_t n_layer = 0;     // routed layers
    uint32_t n_expert = 0;    // a layer; the largest id + 1 where the format does not say
    uint32_t top_k = 0;
    std::vector<uint32_t> layers; // the model's numbers of the routed layers; counted from 0 where the format says none
    std::vector<TraceToken> tokens;
};

// A trace has at least one token, and a token never names an expert twice in a layer.
RoutingTrace read_trace(const std::string &path);

// A trace with stated properties, for when none is at hand: in each layer experts are drawn without repetition from a
// Zipf distribution over a random order of the layer's experts, and each of a token's experts is one of the token
// before with probability `reuse` (more often in effect: what is drawn afresh may be among them too).
// Deterministic in `seed`. Throws Error(usage) for sizes that no model has.
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

// With these a synthetic trace hits about as often as the two real ones of docs/replacement.md, of whose shapes it is
// (tests/lab/replay/claims_test.cpp): to guess with where nothing was recorded.
inline constexpr double skew_like_real = 0.9;
inline constexpr double reuse_like_real = 0.4;

// Writes a trace token by token in larder's own format. After close() the system has all of it, or Error(io) was
// thrown; a writer that goes without it leaves what was written so far, and says nothing.
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
