// numa.h — distributes the pages of this process over the NUMA nodes.
//
// By default the kernel allocates a page on the node of the processor that touches it first. One thread loads the
// weights, so most of them would be on one node, and the threads of other nodes would share its link. With interleaving
// every node serves an equal part.
//
// Threads: call interleave_memory() before any thread starts, because a thread inherits the policy when it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace larder {

// The nodes with both memory and processors that this process may use (affinity mask, cpusets), ascending. Empty if the
// kernel reports no nodes. `root` is prepended to /proc and /sys, for tests.
std::vector<uint32_t> usable_numa_nodes(const std::string &root = "");

// Interleaves pages that this process touches from now on over `nodes`. Does nothing for fewer than two nodes, or if a
// policy is already set (numactl). False if the kernel refuses.
bool interleave_memory(const std::vector<uint32_t> &nodes = usable_numa_nodes());

// One line for the user about the policy in use; empty with fewer than two usable nodes.
std::string numa_note();

} // namespace larder
