// NUMA nodes of simulated machines, and the memory policy of a process.
#include "machine/numa.h"

#include "support/fake_root.h"

#include <gmock/gmock.h>

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace larder::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two nodes of four processors each, and a third one with memory only.
class FakeNodes : public FakeRoot {
  public:
    FakeNodes() {
        write("/sys/devices/system/node/has_memory", "0-2\n");
        write("/sys/devices/system/node/node0/cpulist", "0-3\n");
        write("/sys/devices/system/node/node1/cpulist", "4-7\n");
        write("/sys/devices/system/node/node2/cpulist", "\n");
        allow("0-7", "0-2");
    }
    void allow(const std::string &cpus, const std::string &nodes) const {
        write("/proc/self/status", fmt::format("Cpus_allowed_list:\t{}\nMems_allowed_list:\t{}\n", cpus, nodes));
    }
};

TEST(Numa, NodesAreThoseWithMemoryAndProcessorsThatMayBeUsed) {
    const FakeNodes root;
    EXPECT_THAT(usable_numa_nodes(root.path()), ElementsAre(0, 1));
    root.allow("2,5", "0-2");
    EXPECT_THAT(usable_numa_nodes(root.path()), ElementsAre(0, 1));
    root.allow("0-3", "0-2");
    EXPECT_THAT(usable_numa_nodes(root.path()), ElementsAre(0)) << "taskset to one node: its own memory is nearest";
    root.allow("0-7", "1");
    EXPECT_THAT(usable_numa_nodes(root.path()), ElementsAre(1)) << "a cpuset with one node's memory";
    const FakeRoot none;
    EXPECT_THAT(usable_numa_nodes(none.path()), IsEmpty());
}

// The policy of a child process after interleave_memory(). A child is needed because the policy cannot be undone.
int policy_after(int before, const std::vector<uint32_t> &nodes) {
    const pid_t child = ::fork();
    if (child == 0) {
        unsigned long node_zero = 1;
        int mode = -1;
        const bool set = before == MPOL_DEFAULT || ::syscall(SYS_set_mempolicy, before, &node_zero, 65) == 0;
        const bool done = set && interleave_memory(nodes);
        const bool read = ::syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) == 0;
        ::_exit(done && read ? mode : 255);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

TEST(Numa, MemoryIsInterleavedOverSeveralNodesOnly) {
    int mode = -1;
    if (::syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) != 0 || mode != MPOL_DEFAULT) {
        GTEST_SKIP() << "no memory policies here, or one is set";
    }
    EXPECT_EQ(policy_after(MPOL_DEFAULT, {}), MPOL_DEFAULT);
    EXPECT_EQ(policy_after(MPOL_DEFAULT, {0}), MPOL_DEFAULT);
    EXPECT_EQ(policy_after(MPOL_DEFAULT, {0, 0}), MPOL_INTERLEAVE) << "one node twice, as there may be no second";
    EXPECT_EQ(policy_after(MPOL_BIND, {0, 0}), MPOL_BIND) << "what numactl has set stays";
}

TEST(Numa, OneNodeIsNotWorthALine) {
    if (usable_numa_nodes().size() < 2) {
        EXPECT_EQ(numa_note(), "");
    } else {
        EXPECT_NE(numa_note(), "");
    }
}

} // namespace
} // namespace larder::test
