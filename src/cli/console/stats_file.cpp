#include "cli/console/stats_file.h"

#include "cli/console/write_file.h"

#include <utility>

namespace larder {

StatsFile::StatsFile(std::string path) : path_(std::move(path)) { check_replaceable(path_, "--stats"); }

void StatsFile::write(const std::string &text) {
    if (!path_.empty()) {
        const std::lock_guard lock(mutex_);
        write_file(path_, text, "--stats");
    }
}

} // namespace larder
