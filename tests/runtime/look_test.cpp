// The end of the process that looks at a model is one error, whenever it is noticed.
#include "runtime/look.h"

#include "layout/layout.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>
#include <string>

namespace larder::test {
namespace {

std::set<pid_t> children() {
    std::ifstream list("/proc/self/task/" + std::to_string(gettid()) + "/children");
    std::set<pid_t> pids;
    for (pid_t pid = 0; list >> pid;) {
        pids.insert(pid);
    }
    return pids;
}

TEST(Look, WhoseProcessWasKilledSaysSoEachTime) {
    const Scratch scratch;
    const ModelLayout layout = open_layout(make_model(scratch, "m.gguf", "--arch qwen3moe"));
    const std::set<pid_t> before = children();
    Look look({&layout});
    EXPECT_GT(look.model(0, Kernels::plain).n_vocab, 0U);
    for (const pid_t pid : children()) {
        if (!before.contains(pid)) {
            kill(pid, SIGKILL);
        }
    }
    for (int time = 0; time < 2; time++) {
        try {
            (void)look.model(0, Kernels::plain);
            ADD_FAILURE();
        } catch (const Error &error) {
            EXPECT_EQ(error.kind(), ErrorKind::io);
            EXPECT_NE(error.message().find("m.gguf was killed, most likely because the memory ran out"),
                      std::string::npos)
                << error.what();
            EXPECT_NE(error.remedy().find("cgroup"), std::string::npos) << error.what();
        }
    }
}

} // namespace
} // namespace larder::test
