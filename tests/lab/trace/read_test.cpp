// Reads traces of all three formats, and refuses other files.
#include "lab/trace/trace_file.h"

namespace larder::test {
namespace {

using testing::ElementsAre;

const std::string header = R"({"larder_trace":1,"architecture":"qwen3moe","experts":8,"top_k":2,"layers":[1,2]})"
                           "\n";
const std::string comment = "# route_trace v1\n# model=m.gguf arch=olmoe n_layer=2 n_expert=8 n_expert_used=2\n";
const std::string columns = "turn,phase,step,layer,slot,expert,weight\n";

class ReadTrace : public TraceFiles {};

TEST_F(ReadTrace, LardersOwn) {
    const RoutingTrace trace =
        read_trace(write("own.jsonl", header + R"({"tok":0,"phase":"prefill","layers":[[7,0],[-1,-1]]})"
                                               "\n"
                                               R"({"tok":1,"phase":"decode","layers":[[1,2],[3,4]]})"
                                               "\n"));
    EXPECT_EQ(trace.name, "own.jsonl");
    EXPECT_EQ(trace.architecture, "qwen3moe");
    EXPECT_EQ(trace.n_layer, 2U);
    EXPECT_EQ(trace.n_expert, 8U);
    EXPECT_EQ(trace.top_k, 2U);
    EXPECT_THAT(trace.layers, ElementsAre(1U, 2U));
    ASSERT_EQ(trace.tokens.size(), 2U);
    EXPECT_EQ(trace.tokens[0].phase, TracePhase::prefill);
    EXPECT_EQ(trace.tokens[1].phase, TracePhase::decode);
    EXPECT_THAT(trace.tokens[0].experts, ElementsAre(7, 0, -1, -1));
    EXPECT_THAT(trace.tokens[1].experts, ElementsAre(1, 2, 3, 4));
}

TEST_F(ReadTrace, JsonLinesWithoutHeader) {
    const RoutingTrace trace = read_trace(write("kimi.jsonl", R"({"tok": 0, "layers": [[5, 1], [2, 0], [3, 4]]})"
                                                              "\n\n"
                                                              R"({"tok": 1, "layers": [[0, 1], [2, 9], [3, 4]]})"));
    EXPECT_EQ(trace.architecture, "");
    EXPECT_EQ(trace.n_layer, 3U);
    EXPECT_EQ(trace.n_expert, 10U);
    EXPECT_EQ(trace.top_k, 2U);
    EXPECT_THAT(trace.layers, ElementsAre(0U, 1U, 2U));
    ASSERT_EQ(trace.tokens.size(), 2U);
    EXPECT_EQ(trace.tokens[0].phase, TracePhase::decode);
    EXPECT_THAT(trace.tokens[1].experts, ElementsAre(0, 1, 2, 9, 3, 4));
}

TEST_F(ReadTrace, RouteCsvWhoseRowsGoLayerByLayer) {
    const RoutingTrace trace = read_trace(write("route.csv", comment + columns +
                                                                 "0,0,0,3,0,6,0.5\n0,0,0,3,1,1,0.5\n"
                                                                 "0,0,1,3,0,7,0.5\r\n0,0,1,3,1,2,0.5\n"
                                                                 "0,0,1,5,0,4,0.5\n0,0,1,5,1,3,0.5\n"
                                                                 "0,1,2,3,1,0,0.5\n0,1,2,3,0,5,0.5\n"
                                                                 "0,1,2,5,0,1,0.5\n0,1,2,5,1,2,0.5\n"));
    EXPECT_EQ(trace.architecture, "olmoe");
    EXPECT_EQ(trace.n_expert, 8U);
    EXPECT_EQ(trace.top_k, 2U);
    EXPECT_THAT(trace.layers, ElementsAre(3U, 5U));
    ASSERT_EQ(trace.tokens.size(), 3U);
    EXPECT_THAT(trace.tokens[0].experts, ElementsAre(6, 1, -1, -1)) << "the last layer was not computed for this token";
    EXPECT_THAT(trace.tokens[1].experts, ElementsAre(7, 2, 4, 3));
    EXPECT_THAT(trace.tokens[2].experts, ElementsAre(5, 0, 1, 2));
    EXPECT_EQ(trace.tokens[1].phase, TracePhase::prefill);
    EXPECT_EQ(trace.tokens[2].phase, TracePhase::decode);
}

TEST_F(ReadTrace, NamesTheFileThatIsNotThere) {
    try {
        read_trace(folder_ / "absent.jsonl");
        FAIL() << "accepted";
    } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::io);
        EXPECT_THAT(error.message(), testing::HasSubstr("absent.jsonl"));
    }
}

TEST_F(ReadTrace, RefusesWhatIsEmptyOrNoTrace) {
    expect_refusal("", 1, "empty");
    expect_refusal("\n\n", 1, "empty");
    expect_refusal("GGUF\n", 1, "a trace begins with");
    expect_refusal(header, 1, "without a token");
    expect_refusal(comment + columns, 3, "without a token");
    expect_refusal("[1]\n", 1, "a trace begins with");
}

TEST_F(ReadTrace, RefusesBadHeaders) {
    expect_refusal(R"({"larder_trace":2,"architecture":"a","experts":8,"top_k":2,"layers":[0]})", 1, "version is 2");
    expect_refusal(R"({"larder_trace":1,"architecture":7,"experts":8,"top_k":2,"layers":[0]})", 1, "architecture");
    expect_refusal(R"({"larder_trace":1,"architecture":"a","experts":8,"top_k":9,"layers":[0]})", 1, "'top_k' is 9");
    expect_refusal(R"({"larder_trace":1,"architecture":"a","experts":99999999,"top_k":2,"layers":[0]})", 1, "experts");
    expect_refusal(R"({"larder_trace":1,"architecture":"a","experts":8,"top_k":2,"layers":[]})", 1, "'layers'");
    expect_refusal(R"({"larder_trace":1,"architecture":"a","experts":8,"top_k":2,"layers":[-1]})", 1, "layer's number");
    expect_refusal(R"({"tok":0})", 1, "'layers'");
    expect_refusal(R"({"tok":0,"layers":[[]]})", 1, "'layers'");
}

TEST_F(ReadTrace, RefusesBadTokens) {
    expect_refusal(header + R"({"tok":0,"phase":"decode","layers":[[1,2],[3,)", 2, "cut short");
    expect_refusal(header + R"({"tok":0,"layers":[[1,2],[3,8]]})", 2, "expert of layer 1 is 8");
    expect_refusal(header + R"({"tok":0,"layers":[[-2,2],[3,4]]})", 2, "expert of layer 0 is -2");
    expect_refusal(header + R"({"tok":0,"layers":[[1.5,2],[3,4]]})", 2, "expert of layer 0 is 1.5");
    expect_refusal(header + R"({"tok":0,"layers":[[18446744073709551615,2],[3,4]]})", 2, "expert of layer 0");
    expect_refusal(header + R"({"tok":0,"layers":[[1,2],[3]]})", 2, "layer 1 has 1 experts instead of 2");
    expect_refusal(header + R"({"tok":0,"layers":[[1,2],[3,3]]})", 2, "names expert 3 twice");
    expect_refusal(header + R"({"tok":0,"layers":[[1,2]]})", 2, "1 layers instead of 2");
    expect_refusal(header + R"({"tok":0,"phase":"later","layers":[[1,2],[3,4]]})", 2, "'phase'");
    expect_refusal("{\"tok\":0,\"layers\":[[1,2]]}\n\n{\"tok\":1,\"layers\":[[1,2,3]]}\n", 3, "instead of 2");
    expect_refusal("{\"tok\":0,\"layers\":[[1,70000]]}\n", 1, "is 70000");
}

TEST_F(ReadTrace, RefusesBadRows) {
    const std::string good = comment + columns + "0,0,0,0,0,1,0.5\n0,0,0,0,1,2,0.5\n";
    EXPECT_EQ(read_trace(write("good.csv", good)).tokens.size(), 1U);
    expect_refusal(comment + "turn,layer,expert\n", 3, "columns");
    expect_refusal(good + "0,0,1,0,0,1\n", 6, "6 columns instead of 7");
    expect_refusal(good + "0,0,1,0,0,8,0.5\n", 6, "expert is '8'");
    expect_refusal(good + "0,0,1,0,0,-2,0.5\n", 6, "expert is '-2'");
    expect_refusal(good + "0,0,1,0,0,x,0.5\n", 6, "expert is 'x'");
    expect_refusal(good + "0,2,1,0,0,1,0.5\n", 6, "phase is '2'");
    expect_refusal(good + "0,0,1,99999999999999999999,0,1,0.5\n", 6, "layer is");
    expect_refusal(good + "0,0,1,0,0,3,0.5\n", 6, "layer 0 has 1 experts instead of 2");
    expect_refusal(good + "0,0,1,0,0,3,0.5\n0,0,1,0,1,3,0.5\n", 7, "names expert 3 twice");
    expect_refusal(good + "0,0,1,0,0,3,0.5\n0,0,1,0,0,4,0.5\n", 7, "slot 0 twice");
    expect_refusal("# route_trace v1\n# arch=a n_expert=0\n", 2, "n_expert is '0'");
}

} // namespace
} // namespace larder::test
