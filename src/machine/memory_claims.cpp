#include "machine/memory_claims.h"

#include "machine/proc_files.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

namespace larder {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds turn_wait_max{10'000};
constexpr milliseconds turn_wait_step{10};
constexpr std::string_view claim_prefix = "claim-";

// Creates the folder if it does not exist. True if only this user can write to it: in a shared /tmp another user may
// have created it.
bool is_own_folder(const std::string &path) {
    ::mkdir(path.c_str(), S_IRWXU);
    const UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status = {};
    return folder.valid() && ::fstat(folder.get(), &status) == 0 && status.st_uid == ::geteuid() &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && ::access(path.c_str(), W_OK | X_OK) == 0;
}

// In clock ticks since boot; none if the process does not exist. The process name is in parentheses and may itself
// contain spaces and parentheses; the fields after it begin with the third.
std::optional<uint64_t> start_time(const std::string &pid) {
    const std::string text = read_text("/proc/" + pid + "/stat");
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) {
        return std::nullopt;
    }
    const std::vector<std::string_view> fields = words_of(std::string_view(text).substr(name_end + 1));
    return fields.size() > 19 ? to_number(fields[19]) : std::nullopt;
}

// The inode of the PID namespace, parsed from "pid:[4026531836]". PIDs are only comparable within one namespace.
uint64_t pid_namespace() {
    std::error_code error;
    const std::string link = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
    const size_t begin = link.find('[');
    return begin == std::string::npos
               ? 0
               : to_number(std::string_view(link).substr(begin + 1, link.size() - begin - 2)).value_or(0);
}

struct ClaimFile {
    uint64_t name_space = 0;
    uint64_t pid = 0;
    uint64_t start = 0;
    uint64_t number = 0;
    uint64_t bytes = 0;
};

std::string name_of(const ClaimFile &claim) {
    return fmt::format("{}{}-{}-{}-{}-{}", claim_prefix, claim.name_space, claim.pid, claim.start, claim.number,
                       claim.bytes);
}

std::optional<ClaimFile> parse(std::string_view name) {
    if (!name.starts_with(claim_prefix)) {
        return std::nullopt;
    }
    name.remove_prefix(claim_prefix.size());
    ClaimFile claim;
    for (uint64_t *field : {&claim.name_space, &claim.pid, &claim.start, &claim.number, &claim.bytes}) {
        const std::string_view part = name.substr(0, name.find('-'));
        const auto number = to_number(part);
        if (!number) {
            return std::nullopt;
        }
        *field = *number;
        name.remove_prefix(std::min(name.size(), part.size() + 1));
    }
    return name.empty() ? std::optional(claim) : std::nullopt;
}

// The memory that the claimant holds; none if it has ended. A zombie has no VmRSS line and holds nothing.
std::optional<uint64_t> held_by(const ClaimFile &claim) {
    const std::string pid = std::to_string(claim.pid);
    if (start_time(pid) != claim.start) {
        return std::nullopt;
    }
    const KeyedFile status("/proc/" + pid + "/status");
    return status.find("VmRSS") ? std::optional(status.bytes("VmRSS")) : std::nullopt;
}

template <typename Use> void for_each_claim(const std::string &folder, Use use) {
    const uint64_t name_space = pid_namespace();
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
        const std::optional<ClaimFile> claim = parse(entry->path().filename().string());
        if (claim && claim->name_space == name_space) {
            use(*claim, entry->path());
        }
    }
}

void remove_claims_of_the_dead(const std::string &folder) {
    for_each_claim(folder, [](const ClaimFile &claim, const std::filesystem::path &path) {
        if (!held_by(claim)) {
            std::error_code error; // another process may have removed it already
            std::filesystem::remove(path, error);
        }
    });
}

} // namespace

std::string claims_folder() {
    const auto uid = static_cast<uint64_t>(::geteuid());
    std::vector<std::string> folders;
    if (const char *runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && runtime[0] == '/') {
        folders.push_back(fmt::format("{}/larder", runtime));
    }
    folders.push_back(fmt::format("/run/user/{}/larder", uid));
    folders.push_back(fmt::format("/tmp/larder-{}", uid));
    const auto own = std::ranges::find_if(folders, is_own_folder);
    return own == folders.end() ? "" : *own;
}

std::vector<MemoryClaim> other_claims(const std::string &folder) {
    struct Claimant {
        uint64_t claimed_bytes = 0;
        uint64_t held_bytes = 0;
    };
    std::map<uint64_t, Claimant> claimants; // by PID
    if (!folder.empty()) {
        for_each_claim(folder, [&](const ClaimFile &claim, const std::filesystem::path & /*path*/) {
            const std::optional<uint64_t> held = held_by(claim);
            if (held && claim.pid != static_cast<uint64_t>(::getpid())) {
                claimants[claim.pid].claimed_bytes += claim.bytes;
                claimants[claim.pid].held_bytes = *held;
            }
        });
    }
    std::vector<MemoryClaim> missing;
    for (const auto &[pid, claimant] : claimants) {
        if (claimant.claimed_bytes > claimant.held_bytes) {
            missing.push_back({pid, claimant.claimed_bytes - claimant.held_bytes});
        }
    }
    return missing;
}

PlanningTurn::PlanningTurn(const std::string &folder) {
    if (folder.empty()) {
        return;
    }
    UniqueFd file(::open((folder + "/planning").c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
    for (milliseconds waited{0}; file.valid() && waited < turn_wait_max; waited += turn_wait_step) {
        if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
            lock_ = std::move(file);
            return;
        }
        std::this_thread::sleep_for(turn_wait_step);
    }
}

OwnClaim::OwnClaim(uint64_t bytes, const std::string &folder) {
    static std::atomic<uint64_t> claims{0};
    const std::optional<uint64_t> start = start_time("self");
    if (folder.empty() || bytes == 0 || !start) {
        return;
    }
    remove_claims_of_the_dead(folder);
    const ClaimFile claim{pid_namespace(), static_cast<uint64_t>(::getpid()), *start, claims++, bytes};
    const std::string path = folder + "/" + name_of(claim);
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (file.valid()) {
        path_ = path;
    }
}

OwnClaim::~OwnClaim() {
    if (!path_.empty()) {
        ::unlink(path_.c_str());
    }
}

} // namespace larder
