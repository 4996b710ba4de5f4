// seccomp.h — makes system calls fail or wait, for one thread and the threads that it starts, as a restricted kernel or
// container would.
#pragma once

#include "base/unique_fd.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

namespace larder::test {

// Installs a filter for this thread and the threads that it starts later: the system call ends as `action` says. If
// `flag` is not 0, only calls whose third argument has that flag. Returns the result of seccomp(2); -1 if filters are
// not allowed.
inline long filter_calls(uint32_t call, uint32_t action, uint32_t flag = 0, uint32_t options = 0) {
    const auto argument = static_cast<uint32_t>(offsetof(seccomp_data, args) + 2 * sizeof(uint64_t));
    std::array<sock_filter, 6> filter = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flag, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    if (flag == 0) {
        filter[3] = BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0);
    }
    const sock_fprog program = {filter.size(), filter.data()};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -1;
    }
    return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, options, &program);
}

// Runs `body` on a thread on which `call` fails with `error` (0: returns 0). Returns false if filters are not allowed.
inline bool under_refusal(uint32_t call, uint32_t error, uint32_t flag, const std::function<void()> &body) {
    bool refused = false;
    std::thread([&] {
        refused = filter_calls(call, SECCOMP_RET_ERRNO | error, flag) == 0;
        if (refused) {
            body();
        }
    }).join();
    return refused;
}

// Runs `body` on a thread on which, as on the threads that it starts, each `call` waits for permission.
class HeldCalls {
  public:
    HeldCalls(uint32_t call, const std::function<void()> &body) {
        std::thread([&] {
            listener_ = UniqueFd(
                static_cast<int>(filter_calls(call, SECCOMP_RET_USER_NOTIF, 0, SECCOMP_FILTER_FLAG_NEW_LISTENER)));
            if (listener_.valid()) {
                body();
            }
        }).join();
    }
    // False if filters are not allowed; `body` has not run then.
    [[nodiscard]] bool held() const { return listener_.valid(); }
    // Waits for the next call and permits it. Returns false if the kernel does not support this (before Linux 5.5).
    [[nodiscard]] bool let() const {
        seccomp_notif call{};
        seccomp_notif_resp answer{};
        if (::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
            return false;
        }
        answer.id = call.id;
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        return ::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0;
    }

  private:
    UniqueFd listener_;
};

} // namespace larder::test
