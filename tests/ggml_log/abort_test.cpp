// ggml's abort callback ends the process with one line and an exit code.
#include "ggml_log/ggml_log.h"

#include <ggml.h>

#include <gtest/gtest.h>

#include <barrier>
#include <string>
#include <thread>
#include <vector>

namespace larder {
namespace {

TEST(Abort, EndsTheProcessWithOneLine) {
    take_over_ggml_log();
    EXPECT_EXIT(ggml_abort("file.cpp", 7, "GGML_ASSERT(%s) failed", "n > 0"), testing::ExitedWithCode(1),
                "^error: llama.cpp stopped at an impossible state: file.cpp:7: GGML_ASSERT\\(n > 0\\) failed; the "
                "model's metadata may be damaged: get the file again, or report this\n$");
}

TEST(Abort, OfManyThreadsAtOnceIsOneLineToo) {
    take_over_ggml_log();
    const auto abort_on_all_threads = [] {
        std::barrier together(8);
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; i++) {
            threads.emplace_back([&] {
                together.arrive_and_wait();
                ggml_abort("file.cpp", 7, "broken");
            });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
    };
    EXPECT_EXIT(abort_on_all_threads(), testing::ExitedWithCode(1), "^error: [^\n]*\n$");
}

TEST(Abort, ForWantOfMemoryIsTheErrorOfWhoeverKnowsTheLimit) {
    take_over_ggml_log();
    EXPECT_EXIT(ggml_abort("ggml.c", 1, "GGML_ASSERT(ctx->mem_buffer != NULL) failed"), testing::ExitedWithCode(1),
                "^error: out of memory in llama.cpp; [^\n]+\n$");
    EXPECT_EXIT(
        {
            set_ggml_out_of_memory_error(
                [](const std::string &what) { return Error(ErrorKind::budget, what + ": limit", "raise it"); });
            ggml_abort("ggml.c", 1, "GGML_ASSERT(ctx->mem_buffer != NULL) failed");
        },
        testing::ExitedWithCode(3), "^error: out of memory in llama.cpp: limit; raise it\n$");
}

} // namespace
} // namespace larder
