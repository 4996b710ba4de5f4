// numa.h — on which memory nodes the pages of this process land.
//
// The kernel takes a page from the node of the processor that touches it first. One thread loads the weights, so
// without a policy most of them would lie on one node, and the threads of the others would share its link. Interleaved,
// every node serves an equal part.
//
// Threads: interleave_memory() before the first thread, as a thread inherits the policy when it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace larder {

// The nodes with both memory and processors that this process may use (affinity mask, cpusets), ascending; empty where
// the kernel knows no nodes. `root` stands before /proc and /sys, for tests.
std::vector<uint32_t> usable_numa_nodes(const std::string &root = "");

// Has the pages that this process touches from now on dealt out to `nodes` in turn. Does nothing for fewer than two
// nodes, and where a policy is set already (numactl). False if the kernel refuses.
bool interleave_memory(const std::vector<uint32_t> &nodes = usable_numa_nodes());

// One line about it for the user; empty with fewer than two usable nodes.
std::string numa_note();

} // namespace larder
