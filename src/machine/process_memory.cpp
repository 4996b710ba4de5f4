#include "machine/process_memory.h"

#include "machine/proc_files.h"

namespace larder {

namespace {

uint64_t anonymous_of(const KeyedFile &status) {
    return status.find("RssAnon") ? status.bytes("RssAnon") + status.bytes("RssShmem") : status.bytes("VmRSS");
}

} // namespace

ProcessMemory process_memory(const std::string &root) {
    const KeyedFile status(root + "/proc/self/status");
    const KeyedFile io(root + "/proc/self/io");
    ProcessMemory memory;
    memory.rss_bytes = status.bytes("VmRSS");
    memory.peak_rss_bytes = status.bytes("VmHWM");
    memory.anonymous_bytes = anonymous_of(status);
    memory.vm_swap_bytes = status.bytes("VmSwap");
    memory.locked_bytes = status.bytes("VmLck");
    memory.read_bytes = io.bytes("read_bytes");
    memory.written_bytes = io.bytes("write_bytes");
    return memory;
}

uint64_t anonymous_bytes(const std::string &root) { return anonymous_of(KeyedFile(root + "/proc/self/status")); }

} // namespace larder
