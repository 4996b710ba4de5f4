// Experts in a file mapping: the same bits as stock and as the arena, whatever is dropped; and refusals.
#include "lab/recorder/recorder.h"
#include "lab/residency/page_load.h"
#include "support/model_fixture.h"

#include <ggml-backend.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <filesystem>

namespace larder::test {
namespace {

using testing::HasSubstr;

constexpr std::array evicts = {PageEvict::both, PageEvict::madvise, PageEvict::fadvise, PageEvict::none};
constexpr size_t n_prompt = 50;
constexpr size_t n_decode = 24;

// Slices of about ten pages each.
const SmallModel &paged_model() {
    static const SmallModel model(
        "--arch qwen3moe --quant q4_k_m --layers 3 --experts 16 --top-k 2 --embd 256 --ff 512");
    return model;
}

TestOptions options_for(const SmallModel &model, Residency residency, PageEvict evict = PageEvict::both) {
    TestOptions options = model.options();
    options.residency = residency;
    options.model.kernels = Kernels::plain;
    options.model.context.batch_tokens = 64;
    options.model.context.ubatch_tokens = 16;
    options.model.context.threads = 2;
    options.pager = {2, evict};
    if (residency == Residency::arena) { // the experts of one token
        uint64_t floor_bytes = 0;
        for (const SizeClass &size_class : open_layout(model.path()).size_classes) {
            floor_bytes += size_class.n_slices_per_token * size_class.slot_bytes;
        }
        options.runtime.plan.arena_bytes = floor_bytes;
    }
    return options;
}

struct Answer {
    std::vector<Token> tokens;
    std::vector<float> logits; // after the prompt and after each token
};

Answer answer(OpenModel &engine) {
    Answer answer;
    Session session(engine, greedy());
    EXPECT_TRUE(session.prefill(some_tokens(n_prompt, engine.n_vocab())));
    for (size_t i = 0; i <= n_decode; i++) {
        const std::vector<float> logits = logits_of(session);
        answer.logits.insert(answer.logits.end(), logits.begin(), logits.end());
        if (i < n_decode) {
            answer.tokens.push_back(highest(logits));
            EXPECT_TRUE(session.decode(answer.tokens.back()));
        }
    }
    return answer;
}

void compare_residencies(const SmallModel &model, Kernels kernels) {
    const auto open = [&](Residency residency, PageEvict evict = PageEvict::both) {
        TestOptions options = options_for(model, residency, evict);
        options.model.kernels = kernels;
        return open_as(options);
    };
    const Answer stock = answer(*open(Residency::stock));
    const Answer arena = answer(*open(Residency::arena));
    EXPECT_EQ(arena.tokens, stock.tokens);
    EXPECT_TRUE(same_bits(arena.logits, stock.logits));
    for (const PageEvict evict : evicts) {
        SCOPED_TRACE(to_string(evict));
        const auto engine = open(Residency::page, evict);
        const Answer page = answer(*engine);
        EXPECT_EQ(page.tokens, stock.tokens);
        EXPECT_TRUE(same_bits(page.logits, stock.logits));
        const nlohmann::ordered_json stats = engine->figures().residency.value();
        EXPECT_EQ(stats.at("experts_dropped") > 0, evict != PageEvict::none);
        EXPECT_EQ(stats.at("bytes_dropped") > 0, evict != PageEvict::none);
        EXPECT_EQ(stats.at("bytes_reread") > 0, evict != PageEvict::none) << "some were used again";
    }
}

TEST(PageResidency, GivesTheBitsOfStockAndOfTheArenaWhateverIsDropped) {
    compare_residencies(paged_model(), Kernels::plain);
}

TEST(PageResidency, DoesSoWithRepackedResidentMatrices) { compare_residencies(paged_model(), Kernels::mixed); }

TEST(PageResidency, DoesSoOnAModelWithRecurrentState) { compare_residencies(recurrent_model(), Kernels::plain); }

TEST(PageResidency, DoesSoOnAModelInShards) {
    const Scratch scratch;
    make_model(scratch, "parts.gguf", "--arch qwen3moe --quant q4_k_m --layers 3 --experts 16 --top-k 2 --split 3");
    TestOptions options = options_for(paged_model(), Residency::page);
    options.model.path = scratch / "parts-00001-of-00003.gguf";
    const auto page = open_as(options);
    ASSERT_EQ(page->layout().files.size(), 3U);
    options.residency = Residency::stock;
    const auto stock = open_as(options);
    EXPECT_TRUE(same_bits(answer(*page).logits, answer(*stock).logits));
    EXPECT_GT(page->figures().residency->at("experts_dropped"), 0);
}

TEST(PageResidency, TracesTheRoutesThatTheArenaTraces) {
    std::vector<std::string> traces;
    for (const Residency residency : {Residency::arena, Residency::page}) {
        TestOptions options = options_for(paged_model(), residency);
        const std::string trace = paged_model().path() + ".trace";
        RouteRecorder recorder(trace);
        options.model.observer = &recorder;
        const auto engine = open_as(options);
        answer(*engine);
        recorder.close();
        traces.push_back(contents(trace));
    }
    EXPECT_GT(traces[0].size(), n_prompt);
    EXPECT_EQ(traces[0], traces[1]);
}

TEST(PageResidency, HasItsFiguresAmongTheOthers) {
    TestOptions options = options_for(paged_model(), Residency::page, PageEvict::madvise);
    options.model.context.logits_for_all = true; // a token without logits skips the experts of the last layer
    const auto engine = open_as(options);
    Session session(*engine, greedy());
    ASSERT_TRUE(session.prefill(some_tokens(1, engine->n_vocab())));
    for (size_t i = 0; i < n_decode; i++) {
        ASSERT_TRUE(session.decode(session.sample()));
    }
    const auto json = stats_json(*engine);
    EXPECT_EQ(json.at("residency"), "page");
    EXPECT_EQ(json.at("io_backend"), "mmap");
    const uint64_t per_token = uint64_t{engine->layout().n_layer} * engine->layout().n_expert_used;
    EXPECT_EQ(json.at("expert_hits").get<uint64_t>() + json.at("expert_misses").get<uint64_t>(),
              (1 + n_decode) * per_token);
    const nlohmann::ordered_json &page = json.at("page");
    EXPECT_EQ(page.at("evict"), "madvise");
    EXPECT_EQ(page.at("hot_tokens"), 2);
    EXPECT_EQ(page.at("mapped_bytes"), std::filesystem::file_size(paged_model().path()));
    EXPECT_EQ(page.at("sweeps"), 1 + n_decode);
    EXPECT_GT(page.at("experts_dropped"), 0);
    EXPECT_EQ(json.at("evictions"), 3 * page.at("experts_dropped").get<uint64_t>()) << "gate, up and down";
    EXPECT_GT(page.at("bytes_dropped"), 0);
    EXPECT_GT(page.at("bytes_reread"), 0);
    EXPECT_GE(page.at("major_faults"), 0);
    EXPECT_GE(page.at("disk_read_bytes"), 0);
    ASSERT_EQ(page.at("rss_over_time").size(), 1 + n_decode);
    EXPECT_EQ(page.at("rss_over_time").back().at("tokens"), 1 + n_decode);
    EXPECT_GT(page.at("rss_over_time").back().at("rss_bytes"), 0);
    EXPECT_THAT(stats_line(*engine), HasSubstr(" dropped, "));
}

TEST(PageResidency, OthersHaveNoSuchFigures) {
    for (const Residency residency : {Residency::arena, Residency::stock}) {
        const auto engine = open_as(options_for(paged_model(), residency));
        const auto json = stats_json(*engine);
        EXPECT_EQ(json.at("residency"), to_string(residency));
        EXPECT_FALSE(json.contains("page"));
    }
}

TEST(PageResidency, EndsWhereAFileWasWrittenTo) {
    const Scratch scratch;
    TestOptions options = options_for(paged_model(), Residency::page);
    options.model.path = scratch / "m.gguf";
    std::filesystem::copy_file(paged_model().path(), options.model.path);
    const auto engine = open_as(options);
    Session session(*engine, greedy());
    ASSERT_TRUE(session.prefill(some_tokens(2, engine->n_vocab())));
    std::filesystem::last_write_time(options.model.path,
                                     std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
    const Error error = error_of([&] { session.decode(1); });
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_THAT(error.what(), HasSubstr(options.model.path));
}

// --- refusals ---

TEST(PageResidency, RefusesKernelsThatRepackExperts) {
    for (const Kernels kernels : {Kernels::repacked, Kernels::fast}) {
        TestOptions options = options_for(paged_model(), Residency::page);
        options.model.kernels = kernels;
        const Error error = error_of([&] { open_as(options); });
        EXPECT_EQ(error.kind(), ErrorKind::usage);
        EXPECT_THAT(error.what(), HasSubstr("comes back as zeros"));
        EXPECT_THAT(error.what(), HasSubstr("use --kernels plain or mixed"));
    }
}

TEST(PageResidency, RefusesADenseModel) {
    const SmallModel dense("--arch qwen3 --quant q4_0");
    const Error error = error_of([&] { open_as(options_for(dense, Residency::page)); });
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_THAT(error.what(), HasSubstr("dense model"));
}

TEST(StockResidency, RefusesToTrace) {
    TestOptions options = options_for(paged_model(), Residency::stock);
    RouteRecorder recorder(paged_model().path() + ".trace");
    options.model.observer = &recorder;
    EXPECT_EQ(error_of([&] { open_as(options); }).kind(), ErrorKind::usage);
}

// As if llama.cpp had ignored its overrides and placed an expert tensor in its repack buffer.
TEST(PageLoad, RefusesExpertsInABufferThatIsNotTheMapping) {
    const ModelLayout layout = open_layout(paged_model().path());
    ExpertPager pager(layout, {});
    MappedExperts experts(
        layout, [&](const ExpertTensor &tensor) { return pager.address_of(tensor); },
        [](uint32_t, uint32_t, std::span<const int32_t>) {});
    const std::unique_ptr<Reader> reader = open_reader(layout.files, {});
    const TensorInfo &info = layout.tensors[layout.expert_tensors[4].tensor];
    for (ggml_backend_buffer_type *type : {ggml_backend_cpu_buffer_type(), mapped_buffer_type()}) {
        PageLoad load(layout, *reader, experts, pager);
        const ggml_context_ptr context(ggml_init({ggml_tensor_overhead(), nullptr, true}));
        ggml_tensor *tensor = ggml_new_tensor_3d(context.get(), static_cast<ggml_type>(info.type), info.shape[0],
                                                 info.shape[1], info.shape[2]);
        ggml_set_name(tensor, info.name.c_str());
        const ggml_backend_buffer_ptr buffer(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), type));
        load.add(tensor);
        if (type == mapped_buffer_type()) {
            EXPECT_NO_THROW(load.load({}));
            EXPECT_EQ(tensor->data, pager.address_of(layout.expert_tensors[4]));
            continue;
        }
        const Error error = error_of([&] { load.load({}); });
        EXPECT_EQ(error.kind(), ErrorKind::engine);
        EXPECT_THAT(error.what(), HasSubstr(info.name));
        EXPECT_THAT(error.what(), HasSubstr("buffer of type CPU, which is not a file mapping"));
    }
}

} // namespace
} // namespace larder::test
