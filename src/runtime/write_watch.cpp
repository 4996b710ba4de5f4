#include "runtime/write_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace larder {

WriteWatch::WriteWatch(const std::vector<std::string> &paths) noexcept
    : events_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    written_ = !events_.valid() || std::ranges::any_of(paths, [this](const std::string &path) {
        return ::inotify_add_watch(events_.get(), path.c_str(), IN_MODIFY | IN_CLOSE_WRITE) < 0;
    });
}

bool WriteWatch::may_have_written() noexcept {
    alignas(inotify_event) std::array<char, 4096> events{};
    while (!written_) {
        const ssize_t n = ::read(events_.get(), events.data(), events.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        for (ssize_t at = 0; at < n;) {
            const auto *event = reinterpret_cast<const inotify_event *>(events.data() + at);
            // IN_IGNORED follows the removal of the file itself: nobody can open it any more.
            written_ = written_ || (event->mask & (IN_MODIFY | IN_CLOSE_WRITE | IN_Q_OVERFLOW | IN_UNMOUNT)) != 0;
            at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
        }
        written_ = written_ || n < 0;
    }
    return written_;
}

} // namespace larder
