// Chooses how to read, and says so where it is not the first choice.
#include "base/error.h"
#include "io/io.h"
#include "io/open_files.h"
#include "io/pread_reader.h"
#include "io/uring_reader.h"

namespace larder {

std::unique_ptr<Reader> open_reader(const std::vector<std::string> &paths, const ReaderOptions &options) {
    OpenFiles files = open_files(paths, options.direct);
    ReaderInfo info;
    info.direct_io = files.direct;
    info.notice = files.notice;
    const uint32_t depth = options.depth > 0 ? options.depth : default_read_depth;
    if (options.backend != IoBackend::pread) {
        info.backend = "io_uring";
        try {
            return std::make_unique<UringReader>(std::move(files), depth, info);
        } catch (const Error &refusal) {
            if (options.backend == IoBackend::uring) {
                throw;
            }
            const std::string notice = refusal.message() + "; reading with a pool of threads instead";
            info.notice = info.notice.empty() ? notice : info.notice + "; " + notice;
        }
    }
    info.backend = "pread";
    return std::make_unique<PreadReader>(std::move(files), depth, info);
}

} // namespace larder
