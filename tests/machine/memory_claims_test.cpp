// Claims of real processes, in a folder of the test.
#include "machine/memory_claims.h"

#include "base/bytes.h"
#include "machine/machine.h"
#include "support/fake_root.h"

#include <gmock/gmock.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

namespace larder::test {
namespace {

using testing::IsEmpty;

constexpr uint64_t far_more = 64 * GiB; // than any process of the test holds

// A child process that makes a claim, reports it, and waits until it is ended.
class Claimant {
  public:
    explicit Claimant(const std::string &folder, uint64_t bytes) {
        std::array<int, 2> said{};
        std::array<int, 2> told{};
        EXPECT_EQ(::pipe(said.data()), 0);
        EXPECT_EQ(::pipe(told.data()), 0);
        pid_ = ::fork();
        if (pid_ == 0) {
            ::close(told[1]);
            char byte = 1;
            {
                const OwnClaim claim(bytes, folder);
                bool going = ::write(said[1], &byte, 1) == 1;
                while (going && ::read(told[0], &byte, 1) == 1) {
                    void *const more = ::mmap(nullptr, 8 * MiB, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
                    going = more != MAP_FAILED && ::write(said[1], &byte, 1) == 1;
                }
            }
            ::_exit(0);
        }
        ::close(said[1]);
        ::close(told[0]);
        said_ = UniqueFd(said[0]);
        told_ = UniqueFd(told[1]);
        wait_for_answer();
    }
    ~Claimant() { end(); }
    Claimant(const Claimant &) = delete;
    Claimant &operator=(const Claimant &) = delete;

    void take_8_mib() {
        const char byte = 1;
        EXPECT_EQ(::write(told_.get(), &byte, 1), 1);
        wait_for_answer();
    }
    void end() { finish(0); }
    void kill() { finish(SIGKILL); }
    [[nodiscard]] uint64_t pid() const { return static_cast<uint64_t>(pid_); }

  private:
    void wait_for_answer() {
        char byte = 0;
        EXPECT_EQ(::read(said_.get(), &byte, 1), 1);
    }
    void finish(int signal) {
        if (pid_ > 0) {
            if (signal != 0) {
                ::kill(pid_, signal);
            }
            told_ = UniqueFd();
            ::waitpid(pid_, nullptr, 0);
            pid_ = -1;
        }
    }

    pid_t pid_ = -1;
    UniqueFd said_;
    UniqueFd told_;
};

class Claims : public testing::Test {
  protected:
    [[nodiscard]] size_t files() const {
        return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
    }
    FakeRoot root_;
    std::string folder_ = [this] {
        std::filesystem::create_directory(root_.path() + "/claims");
        return root_.path() + "/claims";
    }();
};

TEST_F(Claims, AreSeenByOthersUntilTheirProcessEnds) {
    EXPECT_THAT(other_claims(folder_), IsEmpty());
    Claimant claimant(folder_, far_more);
    const std::vector<MemoryClaim> seen = other_claims(folder_);
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].pid, claimant.pid());
    EXPECT_LT(seen[0].missing_bytes, far_more);
    EXPECT_GT(seen[0].missing_bytes, far_more - GiB);
    claimant.end();
    EXPECT_THAT(other_claims(folder_), IsEmpty());
    EXPECT_EQ(files(), 0U);
}

TEST_F(Claims, ShrinkByWhatTheirProcessTakes) {
    Claimant claimant(folder_, far_more);
    const uint64_t before = other_claims(folder_).at(0).missing_bytes;
    claimant.take_8_mib();
    const uint64_t after = other_claims(folder_).at(0).missing_bytes;
    EXPECT_GE(before - after, 7 * MiB);
    EXPECT_LE(before - after, 10 * MiB);
}

TEST_F(Claims, OfOneProcessAddUpAndThatWhichIsHeldIsNoClaim) {
    const OwnClaim none(1, folder_);
    EXPECT_EQ(files(), 1U);
    Claimant small(folder_, 1); // the process holds more than its claim
    EXPECT_EQ(files(), 2U);
    EXPECT_THAT(other_claims(folder_), IsEmpty());
    {
        const OwnClaim first(far_more, folder_);
        OwnClaim second(far_more, folder_);
        EXPECT_EQ(files(), 4U);
        EXPECT_THAT(other_claims(folder_), IsEmpty()) << "its own are no other's";
        second = OwnClaim();
        EXPECT_EQ(files(), 3U);
    }
    EXPECT_EQ(files(), 2U);
}

TEST_F(Claims, OfProcessesThatWereKilledCountForNothingAndAreRemoved) {
    Claimant claimant(folder_, far_more);
    claimant.kill();
    EXPECT_EQ(files(), 1U);
    EXPECT_THAT(other_claims(folder_), IsEmpty());
    const OwnClaim own(far_more, folder_);
    EXPECT_EQ(files(), 1U) << "its own";
}

TEST_F(Claims, OfAProcessWhoseNumberAnotherHasNowCountForNothing) {
    Claimant claimant(folder_, far_more);
    const std::filesystem::path file = std::filesystem::directory_iterator(folder_)->path();
    std::string name = file.filename().string(); // claim-NAMESPACE-PID-START-NUMBER-BYTES
    const std::string pid = fmt::format("-{}-", claimant.pid());
    name.insert(name.find(pid) + pid.size(), 1, '1'); // a different start time
    std::filesystem::rename(file, file.parent_path() / name);
    EXPECT_THAT(other_claims(folder_), IsEmpty());
}

TEST_F(Claims, WhoseFilesMakeNoSenseArePassedOver) {
    for (const char *name :
         {"claim-", "claim-1-2-3-4", "claim-1-2-3-4-5-6", "claim-a-b-c-d-e", "other", "claim-1----"}) {
        std::ofstream(folder_ + "/" + name) << "text";
    }
    EXPECT_THAT(other_claims(folder_), IsEmpty());
    const OwnClaim own(far_more, folder_);
    EXPECT_EQ(files(), 7U) << "what is not a claim of a dead process stays";
}

TEST_F(Claims, AreNotMadeWithoutAFolder) {
    for (const std::string &folder : {std::string(), root_.path() + "/absent"}) {
        const PlanningTurn turn(folder);
        const OwnClaim own(far_more, folder);
        EXPECT_THAT(other_claims(folder), IsEmpty());
    }
}

TEST_F(Claims, LieInAFolderThatIsTheUsersAlone) {
    const char *const before = std::getenv("XDG_RUNTIME_DIR");
    const std::string kept = before != nullptr ? before : "";
    ::setenv("XDG_RUNTIME_DIR", root_.path().c_str(), 1);
    EXPECT_EQ(claims_folder(), root_.path() + "/larder");
    struct stat status = {};
    ASSERT_EQ(::stat((root_.path() + "/larder").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0700U);
    ASSERT_EQ(::chmod((root_.path() + "/larder").c_str(), 0777), 0);
    EXPECT_NE(claims_folder(), root_.path() + "/larder") << "others may write it";
    std::filesystem::remove(root_.path() + "/larder");
    std::filesystem::create_directory_symlink(folder_, root_.path() + "/larder");
    EXPECT_NE(claims_folder(), root_.path() + "/larder") << "a link";
    if (before != nullptr) {
        ::setenv("XDG_RUNTIME_DIR", kept.c_str(), 1);
    } else {
        ::unsetenv("XDG_RUNTIME_DIR");
    }
}

TEST_F(Claims, TwoProcessesThatPlanAtOncePlanOneAfterTheOther) {
    std::array<int, 2> go{};
    std::array<int, 2> said{};
    ASSERT_EQ(::pipe(go.data()), 0);
    ASSERT_EQ(::pipe(said.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        char byte = 0;
        const bool going = ::read(go[0], &byte, 1) == 1;
        const PlanningTurn turn(folder_);
        const uint64_t missing = other_claims(folder_).empty() ? 0 : other_claims(folder_)[0].missing_bytes;
        ::_exit(going && ::write(said[1], &missing, sizeof missing) == sizeof missing ? 0 : 1);
    }
    OwnClaim own;
    {
        const PlanningTurn turn(folder_);
        const char byte = 1;
        ASSERT_EQ(::write(go[1], &byte, 1), 1);
        ::usleep(50'000); // without PlanningTurn it would have read the claims by now
        own = OwnClaim(far_more, folder_);
    }
    uint64_t missing = 0;
    ASSERT_EQ(::read(said[0], &missing, sizeof missing), static_cast<ssize_t>(sizeof missing));
    EXPECT_GT(missing, 0U) << "the second did not see the claim of the first";
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    for (const int fd : {go[0], go[1], said[0], said[1]}) {
        ::close(fd);
    }
}

// --- effect on the available memory ---

TEST_F(Claims, AreOfTheMachineAndOfEveryGroupAboveTheirProcess) {
    const uint64_t own = 500 * MiB;
    Machine machine = probe_memory(root_.path(), std::vector<MemoryClaim>{{7, 2 * GiB}, {8, GiB}});
    EXPECT_EQ(machine.usable_bytes, 64 * GiB + own);
    EXPECT_EQ(machine.claimed_bytes, 3 * GiB);
    EXPECT_EQ(machine.unclaimed_bytes(), 61 * GiB + own);

    root_.join_v1("/a/b");
    root_.limit_v1("/a", 4 * GiB, own);
    root_.limit_v1("/a/b", 3 * GiB, own);
    root_.write("/proc/7/cgroup", "4:memory:/a/other\n0::/\n");
    root_.write("/proc/8/cgroup", "4:memory:/a/b/below\n0::/\n");
    machine = probe_memory(root_.path(), std::vector<MemoryClaim>{{8, GiB}});
    EXPECT_EQ(machine.usable_bytes, 3 * GiB);
    EXPECT_EQ(machine.unclaimed_bytes(), 2 * GiB);
    machine = probe_memory(root_.path(), std::vector<MemoryClaim>{{7, 2 * GiB}});
    EXPECT_EQ(machine.usable_bytes, 3 * GiB) << "an explicit budget may still be this";
    EXPECT_EQ(machine.unclaimed_bytes(), 2 * GiB) << "the group above has no more";
    root_.write("/proc/7/cgroup", "4:memory:/ab\n0::/\n");
    machine = probe_memory(root_.path(), std::vector<MemoryClaim>{{7, 2 * GiB}});
    EXPECT_EQ(machine.unclaimed_bytes(), 3 * GiB) << "a neighbour outside of the group";
}

TEST_F(Claims, BeyondAllThereIsLeaveNothing) {
    const Machine machine = probe_memory(root_.path(), std::vector<MemoryClaim>{{7, 1024 * GiB}});
    EXPECT_EQ(machine.unclaimed_bytes(), 0U);
}

} // namespace
} // namespace larder::test
