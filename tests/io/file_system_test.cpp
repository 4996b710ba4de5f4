// File systems that accept O_DIRECT but read through the page cache. They are created and mounted here, on a thread
// with its own mount namespace. The tests are skipped where that is not allowed.
#include "io/file_system.h"

#include "base/bytes.h"
#include "base/error.h"
#include "io/test_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>

namespace larder::test {

namespace {

using testing::AllOf;
using testing::HasSubstr;

bool run(const std::string &command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

class Folder {
  public:
    Folder() : path_((std::filesystem::temp_directory_path() / "larder_mount_XXXXXX").string()) {
        if (::mkdtemp(path_.data()) == nullptr) {
            throw std::runtime_error("cannot make " + path_);
        }
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    [[nodiscard]] std::string file(const std::string &name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

class Mounted {
  public:
    Mounted(std::string image, std::string options, std::string folder)
        : image_(std::move(image)), options_(std::move(options)), folder_(std::move(folder)) {}
    [[nodiscard]] std::string file(const std::string &name) const { return folder_ + "/" + name; }
    [[nodiscard]] bool mount() const { return run("mount -o loop," + options_ + " " + image_ + " " + folder_); }
    // Mounts it again, which removes it from the page cache.
    [[nodiscard]] bool mount_again() const {
        // The kernel releases the files of an io_uring a moment after it was closed.
        for (int attempt = 0; ::umount(folder_.c_str()) != 0; attempt++) {
            if (errno != EBUSY || attempt == 10'000) {
                return false;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return mount();
    }

  private:
    const std::string image_;
    const std::string options_;
    const std::string folder_;
};

// Runs `body` with a new, empty file system mounted with `options`. Returns false if that is impossible.
bool on_file_system(const std::string &mkfs, const std::string &options,
                    const std::function<void(const Mounted &)> &body) {
    const Folder folder;
    const std::string image = folder.file("image");
    std::ofstream(image).close();
    std::filesystem::resize_file(image, 160 * MiB); // sparse
    std::filesystem::create_directory(folder.file("mounted"));
    if (!run(mkfs + " " + image)) {
        return false;
    }
    bool ran = false;
    std::thread([&] {
        const Mounted mounted(image, options, folder.file("mounted"));
        if (::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
            mounted.mount()) {
            ran = true;
            body(mounted);
        }
    }).join();
    return ran;
}

struct FileSystem {
    const char *name;
    const char *mkfs;
    const char *options;
};

class CachingFileSystem : public testing::TestWithParam<FileSystem> {};

// Content that compresses well, so that btrfs compresses it.
const std::string &content() {
    static const std::string text = [] {
        std::string lines;
        while (lines.size() < 4 * MiB) {
            lines += "line " + std::to_string(lines.size()) + "\n";
        }
        lines.resize(4 * MiB);
        return lines;
    }();
    return text;
}

// Reads the first `window` bytes of each `stride` bytes, and expects little in the page cache.
void reads_and_leaves_little(Reader &reader, const std::string &path, uint64_t window, uint64_t stride) {
    const Memory memory(align_up(content().size(), stride));
    std::vector<ReadRequest> requests;
    for (uint64_t offset = 0; offset < content().size(); offset += stride) {
        requests.push_back({0, offset, memory.at(offset), window, std::min(window, content().size() - offset), offset});
    }
    reader.submit(requests);
    for (const ReadResult &result : poll_all(reader)) {
        EXPECT_EQ(result.error, 0);
        EXPECT_EQ(std::memcmp(memory.at(result.tag), content().data() + result.tag, result.bytes_read), 0);
    }
    EXPECT_LE(cached_bytes_of(path), content().size() / 8) << "pages are dropped behind each read";
}

} // namespace

TEST_P(CachingFileSystem, IsFoundOutAndItsPagesDropped) {
    const bool ran = on_file_system(GetParam().mkfs, GetParam().options, [](const Mounted &mounted) {
        const std::string path = mounted.file("model.gguf");
        std::ofstream(path) << content();
        for (const bool cached_before : {true, false}) { // first perhaps still dirty, then with nothing cached
            ASSERT_TRUE(cached_before || mounted.mount_again());
            const std::unique_ptr<Reader> reader = open_reader({path}, {});
            EXPECT_FALSE(reader->info().direct_io);
            EXPECT_FALSE(reader->info().in_memory);
            EXPECT_THAT(reader->info().notice,
                        AllOf(HasSubstr(path), HasSubstr("accepts direct I/O (O_DIRECT), but reads through the page"),
                              HasSubstr("dropped")));
        }
        for (const IoBackend backend : {IoBackend::automatic, IoBackend::pread}) {
            ASSERT_TRUE(mounted.mount_again());
            const std::unique_ptr<Reader> reader = open_reader({path}, {.backend = backend, .depth = 4});
            reads_and_leaves_little(*reader, path, 68 * KiB, 68 * KiB);
            reads_and_leaves_little(*reader, path, 4 * KiB, 128 * KiB); // btrfs decompresses the whole 128 KiB
        }
        try {
            open_reader({path}, {.direct = DirectIo::required});
            ADD_FAILURE() << "opened";
        } catch (const Error &error) {
            EXPECT_EQ(error.kind(), ErrorKind::io);
            EXPECT_THAT(error.what(), AllOf(HasSubstr(path), HasSubstr("reads through the page cache")));
            EXPECT_THAT(error.remedy(), AllOf(HasSubstr("uncompressed"), HasSubstr("ext4")));
        }
    });
    if (!ran) {
        GTEST_SKIP() << "this file system cannot be made and mounted here";
    }
}

INSTANTIATE_TEST_SUITE_P(Made, CachingFileSystem,
                         testing::Values(FileSystem{"Ext4WithJournalledData", "mkfs.ext4 -q -F", "data=journal"},
                                         FileSystem{"CompressedBtrfs", "mkfs.btrfs -q", "compress-force=zstd"}),
                         [](const auto &of) { return std::string(of.param.name); });

TEST(FileSystem, PlainExt4AndBtrfsReadDirectly) {
    bool ran = false;
    for (const char *mkfs : {"mkfs.ext4 -q -F", "mkfs.btrfs -q"}) {
        ran |= on_file_system(mkfs, "rw", [](const Mounted &mounted) {
            const std::string path = mounted.file("model.gguf");
            std::ofstream(path) << content();
            const std::unique_ptr<Reader> reader = open_reader({path}, {.direct = DirectIo::required});
            EXPECT_TRUE(reader->info().direct_io);
            EXPECT_EQ(reader->info().notice, "");
        });
    }
    if (!ran) {
        GTEST_SKIP() << "no file system can be made and mounted here";
    }
}

TEST(FileSystem, InMemoryIsNamedAsWhatItIs) {
    if (::access("/dev/shm", W_OK) != 0) {
        GTEST_SKIP() << "no /dev/shm";
    }
    const TestFile file(256 * KiB, 0, "/dev/shm");
    if (!file.in_memory()) {
        GTEST_SKIP() << "/dev/shm is no tmpfs";
    }
    for (const DirectIo direct : {DirectIo::automatic, DirectIo::off}) {
        const std::unique_ptr<Reader> reader = open_reader({file.path()}, {.direct = direct});
        EXPECT_TRUE(reader->info().in_memory);
        EXPECT_FALSE(reader->info().direct_io);
        EXPECT_THAT(
            reader->info().notice,
            HasSubstr(file.path() + " lies in memory (tmpfs): the file itself takes RAM outside of the budget"));
        const Memory memory(256 * KiB);
        EXPECT_EQ(read_one(*reader, {0, 0, memory.at(0), 256 * KiB, 256 * KiB, 1}).error, 0);
        EXPECT_TRUE(SimReader::matches(0, 0, memory.at(0), 256 * KiB));
    }
    try {
        open_reader({file.path()}, {.direct = DirectIo::required});
        FAIL() << "opened";
    } catch (const Error &error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr(file.path()), HasSubstr("lies in memory")));
    }
}

TEST(FileSystem, OneFileInMemoryIsEnoughToSayIt) {
    if (::access("/dev/shm", W_OK) != 0) {
        GTEST_SKIP() << "no /dev/shm";
    }
    const TestFile on_disk(64 * KiB);
    const TestFile in_memory(64 * KiB, 1, "/dev/shm");
    if (on_disk.in_memory() || !in_memory.in_memory()) {
        GTEST_SKIP() << "both are of one kind";
    }
    const std::unique_ptr<Reader> reader = open_reader({on_disk.path(), in_memory.path()}, {});
    EXPECT_TRUE(reader->info().in_memory);
    EXPECT_FALSE(reader->info().direct_io);
    EXPECT_THAT(reader->info().notice, HasSubstr(in_memory.path()));
}

TEST(FileSystem, ZfsReadsDirectlyFromVersion23On) {
    for (const char *version : {"0.8.6-1", "2.1.11-1", "2.2.7\n", "", "unknown", "2", "2."}) {
        EXPECT_TRUE(zfs_ignores_direct(version)) << version;
    }
    for (const char *version : {"2.3.0-1", "2.3.99-120_g1234", "2.10.0", "3.0.0\n"}) {
        EXPECT_FALSE(zfs_ignores_direct(version)) << version;
    }
}

} // namespace larder::test
