// A tensor of a type that ggml does not support is refused by name; ggml can compute with every accepted type.
#include "layout/gguf_builder.h"
#include "layout/layout.h"
#include "layout/refuses.h"
#include "layout/types.h"

#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace larder {
namespace {

constexpr int64_t row = 256; // a multiple of each type's block size

std::vector<ggml_type> all_types() {
    std::vector<ggml_type> types;
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        if (ggml_type_size(static_cast<ggml_type>(type)) > 0) {
            types.push_back(static_cast<ggml_type>(type));
        }
    }
    return types;
}

// Builds the operation of `make` on a zero weight of this type, and computes it.
ggml_status compute(ggml_type type, const std::function<ggml_tensor *(ggml_context *, ggml_tensor *)> &make) {
    const ggml_context_ptr context(ggml_init({size_t{16} << 20, nullptr, false}));
    ggml_tensor *weight = ggml_new_tensor_3d(context.get(), type, row, 4, 2);
    std::fill_n(static_cast<char *>(weight->data), ggml_nbytes(weight), '\0');
    ggml_tensor *op = make(context.get(), weight);
    for (ggml_tensor *source : {op->src[1], op->src[2]}) {
        if (source != nullptr) {
            std::fill_n(static_cast<char *>(source->data), ggml_nbytes(source), '\0');
        }
    }
    ggml_cgraph *graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, op);
    return ggml_graph_compute_with_ctx(context.get(), graph, 1);
}

TEST(AcceptedTypes, AreMultipliedByGgml) {
    int accepted = 0;
    for (const ggml_type type : all_types()) {
        if (!ggml_can(TensorUse::matrix, type)) {
            continue;
        }
        accepted++;
        EXPECT_EQ(compute(type,
                          [](ggml_context *context, ggml_tensor *weight) {
                              return ggml_mul_mat(context, weight,
                                                  ggml_new_tensor_3d(context, GGML_TYPE_F32, row, 3, 2));
                          }),
                  GGML_STATUS_SUCCESS)
            << ggml_type_name(type);
        EXPECT_EQ(compute(type,
                          [](ggml_context *context, ggml_tensor *weight) {
                              return ggml_mul_mat_id(context, weight,
                                                     ggml_new_tensor_3d(context, GGML_TYPE_F32, row, 1, 3),
                                                     ggml_new_tensor_2d(context, GGML_TYPE_I32, 1, 3));
                          }),
                  GGML_STATUS_SUCCESS)
            << ggml_type_name(type);
    }
    EXPECT_GT(accepted, 20); // all types that models are quantised to
}

TEST(AcceptedTypes, AreLookedUpByGgml) {
    for (const ggml_type type : all_types()) {
        if (ggml_can(TensorUse::rows, type)) {
            EXPECT_EQ(compute(type,
                              [](ggml_context *context, ggml_tensor *weight) {
                                  return ggml_get_rows(context, weight,
                                                       ggml_new_tensor_2d(context, GGML_TYPE_I32, 3, 2));
                              }),
                      GGML_STATUS_SUCCESS)
                << ggml_type_name(type);
        }
    }
}

TEST(AcceptedTypes, AreAllThatModelsAreQuantisedTo) {
    for (const ggml_type type : all_types()) {
        const bool quantised_to = ggml_is_quantized(type) && ggml_get_type_traits(type)->to_float != nullptr;
        const bool of_float = type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
        for (const TensorUse use : {TensorUse::matrix, TensorUse::rows, TensorUse::both}) {
            EXPECT_EQ(ggml_can(use, type), quantised_to || of_float) << ggml_type_name(type);
        }
    }
}

class Types : public testing::Test {
  protected:
    // The refusal of a model with one additional tensor of this type; empty if it is accepted.
    std::optional<Error> with(const std::string &name, ggml_type type, const std::vector<int64_t> &shape) {
        GgufBuilder gguf = moe_keys();
        gguf.tensor(name, type, shape);
        return refusal_of(gguf.write(dir));
    }
    void refused(const std::string &name, ggml_type type, const std::vector<int64_t> &shape) {
        const std::optional<Error> error = with(name, type, shape);
        ASSERT_TRUE(error) << name << " of " << ggml_type_name(type);
        EXPECT_EQ(error->kind(), ErrorKind::model);
        EXPECT_THAT(error->message(),
                    testing::HasSubstr(fmt::format("'{}' has the type {}", name, ggml_type_name(type))));
        EXPECT_THAT(error->remedy(), testing::HasSubstr("another quantisation"));
    }
    void accepted(const std::string &name, ggml_type type, const std::vector<int64_t> &shape) {
        const std::optional<Error> error = with(name, type, shape);
        EXPECT_FALSE(error) << name << " of " << ggml_type_name(type) << ": " << error->what();
    }
    TempDir dir;
};

TEST_F(Types, ThatGgmlCannotMultiplyAreRefusedInEveryRole) {
    for (const ggml_type type :
         {GGML_TYPE_Q8_1, GGML_TYPE_Q8_K, GGML_TYPE_I8, GGML_TYPE_I16, GGML_TYPE_I32, GGML_TYPE_I64, GGML_TYPE_F64}) {
        for (const char *name :
             {"blk.0.ffn_up_exps.weight", "blk.0.attn_q.weight", "output.weight", "blk.0.ffn_gate_inp.weight",
              "token_embd.weight", "blk.0.ffn_up_shexp.weight", "blk.0.ssm_out.weight", "blk.0.ffn_up.weight"}) {
            refused(name, type, {row, 4, 4});
        }
        for (const char *name : {"blk.0.attn_norm.weight", "output_norm.weight", "blk.0.attn_q.bias"}) {
            refused(name, type, {row});
        }
    }
}

TEST_F(Types, OfNormsAndBiasesAreFloat) {
    for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0}) {
        refused("blk.0.attn_norm.weight", type, {row});
        refused("blk.0.ffn_up_exps.bias", type, {row, 4});
    }
    accepted("blk.0.attn_norm.weight", GGML_TYPE_F32, {row});
    accepted("blk.0.exp_probs_b.bias", GGML_TYPE_F32, {row});
    accepted("blk.0.ffn_up_exps.scale", GGML_TYPE_F32, {4});
}

TEST_F(Types, OfRoutersMayBeAnyThatGgmlMultiplies) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0}) {
        accepted("blk.0.ffn_gate_inp.weight", type, {row, 4});
        accepted("blk.0.ffn_gate_inp_shexp.weight", type, {row});
    }
}

TEST_F(Types, OfTablesOfNumbersAreIntegers) {
    accepted("blk.0.ffn_gate_tid2eid.weight", GGML_TYPE_I32, {2, 10});
    refused("blk.0.ffn_gate_tid2eid.weight", GGML_TYPE_F32, {2, 10});
    refused("blk.0.ffn_gate_tid2eid.weight", GGML_TYPE_I64, {2, 10});
    accepted("d2t", GGML_TYPE_I64, {10});
    accepted("masked_embd_ordering", GGML_TYPE_I32, {10});
}

TEST_F(Types, OfSmallWeightsOfRecurrentLayersMayBeFloat) {
    accepted("blk.0.ssm_a", GGML_TYPE_F32, {1, 4});
    accepted("blk.0.ssm_d", GGML_TYPE_F32, {4});
    accepted("blk.0.ssm_norm.weight", GGML_TYPE_F32, {16, 4});
    accepted("blk.0.ssm_in.weight", GGML_TYPE_Q4_K, {row, 4});
    accepted("blk.0.time_mix_lerp_fused.weight", GGML_TYPE_F32, {row, 1, 1, 5});
}

} // namespace
} // namespace larder
