#include "base/file_identity.h"
#include "base/unique_fd.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace larder {
namespace {

class FileIdentityTest : public testing::Test {
  protected:
    FileIdentityTest() : path_(testing::TempDir() + "file_identity_test") { write("first"); }
    ~FileIdentityTest() override { std::filesystem::remove(path_); }

    void write(const std::string &text) const { std::ofstream(path_) << text; }
    // Writes until the file's time stamp differs: the kernel's clock for it ticks only every few milliseconds.
    void write_later(const std::string &text, const FileIdentity &before) const {
        do {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            write(text);
        } while (identity_of(path_)->changed_ns == before.changed_ns);
    }

    std::string path_;
};

TEST_F(FileIdentityTest, IsTheSameThroughAPathAndADescriptor) {
    const UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(identity_of(path_), identity_of(fd.get()));
    EXPECT_EQ(identity_of(path_)->bytes, 5U);
}

TEST_F(FileIdentityTest, ChangesWithAWriteWhoseTimeWasSetBack) {
    const FileIdentity before = identity_of(path_).value();
    struct stat status = {};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    write_later("other", before);
    const std::array<timespec, 2> times = {status.st_atim, status.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times.data(), 0), 0);
    const FileIdentity after = identity_of(path_).value();
    EXPECT_EQ(after.bytes, before.bytes);
    EXPECT_EQ(after.modified_ns, before.modified_ns);
    EXPECT_TRUE(may_hold_other_bytes(before, after, false));
    EXPECT_FALSE(may_hold_other_bytes(after, identity_of(path_).value(), true));
}

TEST_F(FileIdentityTest, ChangesWithAReplacement) {
    const FileIdentity before = identity_of(path_).value();
    std::ofstream(path_ + ".new") << "first";
    std::filesystem::rename(path_ + ".new", path_);
    EXPECT_NE(identity_of(path_)->inode, before.inode);
}

TEST_F(FileIdentityTest, HoldsTheSameBytesWhenItLosesItsName) {
    const UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    const FileIdentity before = identity_of(fd.get()).value();
    std::filesystem::remove(path_);
    EXPECT_FALSE(may_hold_other_bytes(before, identity_of(fd.get()).value(), false));
    EXPECT_TRUE(may_hold_other_bytes(before, identity_of(fd.get()).value(), true)) << "a write may hide behind it";
    write("first");
    EXPECT_TRUE(may_hold_other_bytes(before, identity_of(path_).value(), false)) << "another file of this name";
}

TEST_F(FileIdentityTest, IsNoneWithoutAFile) {
    EXPECT_FALSE(identity_of(path_ + ".absent"));
    EXPECT_EQ(errno, ENOENT);
    EXPECT_FALSE(identity_of(-1));
}

} // namespace
} // namespace larder
