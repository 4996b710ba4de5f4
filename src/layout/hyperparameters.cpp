#include "layout/hyperparameters.h"

#include "layout/classify.h"
#include "layout/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace larder {

namespace {

bool any_above_zero(const std::vector<uint64_t> &values) {
    return std::ranges::any_of(values, [](uint64_t value) { return value > 0; });
}

class Check {
  public:
    Check(const ModelLayout &layout, const Metadata &keys) : layout_(layout), keys_(keys) {}

    void operator()() const {
        check_periods();
        check_groups_of_experts();
        check_attention_sizes();
        check_state_sizes();
        check_window();
        check_rope();
    }

  private:
    [[nodiscard]] std::string key(std::string_view name) const {
        return fmt::format("{}.{}", layout_.architecture, name);
    }
    [[nodiscard]] std::vector<uint64_t> values(std::string_view name) const {
        return keys_.number_or_numbers(key(name), layers_max);
    }
    [[nodiscard]] Error refused(std::string_view name, uint64_t value, std::string_view why) const {
        return refusal(keys_.path(), fmt::format("key '{}' is {}, {}", key(name), value, why), convert_again);
    }

    // Every n-th layer has full attention. llama.cpp divides by n.
    void check_periods() const {
        const std::string_view period = "full_attention_interval";
        if (values(period) == std::vector<uint64_t>{0}) {
            throw refused(period, 0, "but must be at least 1");
        }
    }

    // The values for which llama.cpp ends the process.
    void check_groups_of_experts() const {
        const uint64_t groups = keys_.number(key("expert_group_count")).value_or(0);
        const uint64_t used = keys_.number(key("expert_group_used_count")).value_or(0);
        const uint64_t n_expert = layout_.n_expert;
        if (groups > 0 && (groups >= n_expert || n_expert % groups != 0)) {
            throw refused("expert_group_count", groups, fmt::format("which does not divide {} experts", n_expert));
        }
        if (groups > 1 && (used == 0 || used >= groups)) {
            throw refused("expert_group_used_count", used, fmt::format("but there are {} groups", groups));
        }
    }

    // The largest extent of all tensors for which `is_counted` is true; nullopt if there is none.
    template <typename IsCounted> [[nodiscard]] std::optional<uint64_t> largest_extent(IsCounted is_counted) const {
        std::optional<uint64_t> largest;
        for (const TensorInfo &tensor : layout_.tensors) {
            if (is_counted(tensor)) {
                const auto extent = static_cast<uint64_t>(std::ranges::max(tensor.shape));
                largest = std::max(largest.value_or(0), extent);
            }
        }
        return largest;
    }

    void check_at_most(std::string_view name, uint64_t most, std::string_view which_tensors) const {
        for (const uint64_t value : values(name)) {
            if (value > most) {
                throw refused(name, value, fmt::format("but the largest extent of {} is {}", which_tensors, most));
            }
        }
    }

    // Each head has rows in the projection of queries, keys or values; latent heads have them in the projection to the
    // latent vector.
    void check_attention_sizes() const {
        const auto largest = largest_extent([](const TensorInfo &tensor) {
            return tensor.kind == TensorKind::attention && std::ranges::max(tensor.shape) > 1; // else it is a scale
        });
        if (!largest) {
            return; // the number of heads has another meaning in such models
        }
        for (const std::string_view name :
             {"attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
              "attention.key_length_swa", "attention.value_length_swa", "attention.key_length_mla",
              "attention.value_length_mla", "attention.key_length_mla_swa", "attention.value_length_mla_swa",
              "rope.dimension_count", "rope.dimension_count_swa"}) {
            check_at_most(name, *largest, "an attention tensor");
        }
    }

    // The state of a recurrent layer is the product of two sizes. For some architectures llama.cpp compares only one of
    // them with the tensors. Both are extents of the layer's tensors.
    void check_state_sizes() const {
        const auto is_ssm = [](const TensorInfo &tensor) { return parse_tensor_name(tensor.name).stem == "ssm_out"; };
        const auto largest = largest_extent([](const TensorInfo &tensor) { return tensor.layer >= 0; });
        if (largest && std::ranges::any_of(layout_.tensors, is_ssm)) {
            check_at_most("ssm.inner_size", *largest, "a layer's tensor");
            check_at_most("ssm.state_size", *largest, "a layer's tensor");
        }
        const auto is_wkv = [](const TensorInfo &tensor) {
            return parse_tensor_name(tensor.name).stem.starts_with("time_mix_");
        };
        const std::string_view divisor = "wkv.head_size";
        if (values(divisor) == std::vector<uint64_t>{0} && std::ranges::any_of(layout_.tensors, is_wkv)) {
            throw refused(divisor, 0, "but must be at least 1");
        }
    }

    // llama.cpp adds to the sliding window and multiplies it by the number of sequences (at most 256) in 32 bits. No
    // context is longer than 2^24 tokens. Layers with a sliding window require a size above 0.
    void check_window() const {
        constexpr uint64_t window_max = 1U << 24U;
        const std::string_view name = "attention.sliding_window";
        const std::vector<uint64_t> windows = values(name);
        for (const uint64_t window : windows) {
            if (window > window_max) {
                throw refused(name, window, fmt::format("more than any context (at most {})", window_max));
            }
        }
        const std::string pattern = key("attention.sliding_window_pattern"); // a number is a period, possibly unused
        const std::vector<uint64_t> flags =
            keys_.is_array(pattern) ? values("attention.sliding_window_pattern") : std::vector<uint64_t>{};
        if (windows == std::vector<uint64_t>{0} && any_above_zero(flags)) {
            throw refused(name, 0, fmt::format("but '{}' limits layers to a window", pattern));
        }
    }

    // ggml rotates pairs of dimensions. Sections divide the dimensions. With sections and no dimensions, ggml's loop
    // over the sections does not end. Without sections, 0 can mean that nothing is rotated.
    void check_rope() const {
        for (const std::string_view name : {"rope.dimension_count", "rope.dimension_count_swa"}) {
            for (const uint64_t count : values(name)) {
                if (count % 2 != 0) {
                    throw refused(name, count, "an odd number, but dimensions are rotated in pairs");
                }
            }
        }
        const std::string_view sections = "rope.dimension_sections";
        if (values("rope.dimension_count") == std::vector<uint64_t>{0} && any_above_zero(values(sections))) {
            throw refused("rope.dimension_count", 0, fmt::format("but '{}' shares dimensions out", key(sections)));
        }
    }

    const ModelLayout &layout_;
    const Metadata &keys_;
};

} // namespace

void check_hyperparameters(const ModelLayout &layout, const Metadata &keys) { Check(layout, keys)(); }

} // namespace larder
