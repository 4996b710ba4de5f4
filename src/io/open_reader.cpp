// Chooses the backend, and sets a notice if it is not the first choice.
#include "base/error.h"
#include "io/io.h"
#include "io/open_files.h"
#include "io/pread_reader.h"
#include "io/uring_reader.h"

namespace larder {

std::unique_ptr<Reader> open_reader(const std::vector<std::string> &paths, const ReaderOptions &options) {
    OpenFiles files = open_files(paths, options.direct);
    ReaderInfo info;
    info.direct_io = files.bypasses_cache;
    info.in_memory = files.in_memory;
    info.notice = files.notice;
    const ReaderLimits limits = {options.depth > 0 ? options.depth : default_read_depth,
                                 options.requests_max > 0 ? options.requests_max : default_requests_max};
    if (options.backend != IoBackend::pread) {
        info.backend = "io_uring";
        try {
            return std::make_unique<UringReader>(std::move(files), limits, info);
        } catch (const Error &refusal) {
            if (options.backend == IoBackend::uring) {
                throw;
            }
            const std::string notice = refusal.message() + "; reading with a pool of threads instead";
            info.notice = info.notice.empty() ? notice : info.notice + "; " + notice;
        }
    }
    info.backend = "pread";
    return std::make_unique<PreadReader>(std::move(files), limits, info);
}

} // namespace larder
