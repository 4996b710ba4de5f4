// routing.h — a trace adapted to the sizes of a model.
#pragma once

#include "architectures.h"
#include "lab/trace/trace.h"

#include <cstdint>
#include <span>
#include <vector>

namespace larder::make_recite {

// The rules of fold(), for --help.
inline constexpr const char *fold_rules =
    "A trace of other sizes than the model is folded. Layers beyond the model's are dropped; a shallower trace begins "
    "again. Ids are taken modulo the experts; an id that is then taken already moves on to the next free one. Choices "
    "beyond the top-k are dropped; missing ones repeat the token's own, half the experts further on. An expert that "
    "was not recorded is that of the layer before. Tokens beyond the embedding size are dropped.";

class Routing {
  public:
    // The experts of a token in a layer of the model: distinct, in the router's order.
    [[nodiscard]] std::span<const int32_t> experts(uint32_t token, uint32_t layer) const {
        return std::span(experts_).subspan((size_t{token} * layers_ + layer) * top_k_, top_k_);
    }
    [[nodiscard]] uint32_t tokens() const { return tokens_; }

    friend Routing fold(const RoutingTrace &trace, const make_model::Shape &shape);

  private:
    uint32_t tokens_ = 0;
    uint32_t layers_ = 0;
    uint32_t top_k_ = 0;
    std::vector<int32_t> experts_;
};

Routing fold(const RoutingTrace &trace, const make_model::Shape &shape);

} // namespace larder::make_recite
