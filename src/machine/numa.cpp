#include "machine/numa.h"

#include "machine/proc_files.h"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <optional>

namespace larder {

namespace {

const std::string node_folder = "/sys/devices/system/node";
constexpr size_t word_bits = sizeof(unsigned long) * CHAR_BIT;

bool meet(const std::vector<uint32_t> &a, const std::vector<uint32_t> &b) {
    return std::ranges::any_of(a, [&](uint32_t number) { return std::ranges::binary_search(b, number); });
}

// The policy of this thread; none if the kernel does not support policies.
std::optional<int> policy() {
    int mode = MPOL_DEFAULT;
    if (::syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) != 0) {
        return std::nullopt;
    }
    return mode;
}

} // namespace

std::vector<uint32_t> usable_numa_nodes(const std::string &root) {
    const KeyedFile status(root + "/proc/self/status");
    const std::vector<uint32_t> cpus = parse_list(status.value("Cpus_allowed_list"));
    const std::vector<uint32_t> memory = parse_list(status.value("Mems_allowed_list"));
    std::vector<uint32_t> nodes;
    for (const uint32_t node : parse_list(read_text(root + node_folder + "/has_memory"))) {
        const auto of_node = parse_list(read_text(fmt::format("{}{}/node{}/cpulist", root, node_folder, node)));
        if (std::ranges::binary_search(memory, node) && meet(of_node, cpus)) {
            nodes.push_back(node);
        }
    }
    return nodes;
}

bool interleave_memory(const std::vector<uint32_t> &nodes) {
    if (nodes.size() < 2 || policy() != MPOL_DEFAULT) {
        return true;
    }
    std::vector<unsigned long> mask(nodes.back() / word_bits + 1);
    for (const uint32_t node : nodes) {
        mask[node / word_bits] |= 1UL << (node % word_bits);
    }
    // The kernel uses one bit less than `maxnode`.
    return ::syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, mask.data(), mask.size() * word_bits + 1) == 0;
}

std::string numa_note() {
    const std::vector<uint32_t> nodes = usable_numa_nodes();
    if (nodes.size() < 2) {
        return {};
    }
    const std::optional<int> mode = policy();
    if (mode == MPOL_INTERLEAVE) {
        return fmt::format("memory is interleaved over {} NUMA nodes", nodes.size());
    }
    return mode == MPOL_DEFAULT
               ? fmt::format("memory is not interleaved over the {} NUMA nodes: the kernel refuses; start larder with "
                             "'numactl --interleave=all'",
                             nodes.size())
               : fmt::format("memory follows the policy that was set for this process over {} NUMA nodes",
                             nodes.size());
}

} // namespace larder
