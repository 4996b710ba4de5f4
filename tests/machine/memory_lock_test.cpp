// Locked memory, tested in a child process: a lock on future mappings cannot be removed for single mappings.
#include "machine/memory_lock.h"

#include "base/bytes.h"
#include "base/error.h"
#include "machine/proc_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace larder {
namespace {

using testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool locks_are_real = false; // sanitizers replace mlockall() with a no-op
#else
constexpr bool locks_are_real = true;
#endif

constexpr size_t buffer_bytes = 1 * MiB;

char *map_buffer() {
    void *mapped = ::mmap(nullptr, buffer_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mapped == MAP_FAILED ? nullptr : static_cast<char *>(mapped);
}

// The smaps figures of the mapping that contains an address, in KiB.
struct Smaps {
    uint64_t rss = 0;
    uint64_t locked = 0;
};
Smaps smaps_of(const char *address) {
    const std::string text = read_text("/proc/self/smaps");
    const auto wanted = reinterpret_cast<uint64_t>(address);
    Smaps smaps;
    bool inside = false;
    for_each_line(text, [&](std::string_view line) {
        const std::vector<std::string_view> words = words_of(line);
        if (words.size() >= 5 && words[0].find('-') != std::string_view::npos) { // begin-end permissions ...
            const std::string range(words[0]);
            inside = std::stoull(range, nullptr, 16) <= wanted &&
                     wanted < std::stoull(range.substr(range.find('-') + 1), nullptr, 16);
        } else if (inside && words[0] == "Rss:") {
            smaps.rss = to_number(words[1]).value_or(0);
        } else if (inside && words[0] == "Locked:") {
            smaps.locked = to_number(words[1]).value_or(0);
        }
    });
    return smaps;
}

// Runs `body` in a child and returns its exit code.
template <typename Body> int in_child(Body body) {
    const pid_t child = ::fork();
    if (child == 0) {
        int code = 99;
        try {
            code = body();
        } catch (const Error &error) {
            fmt::print(stderr, "{}\n", error.what());
        }
        ::_exit(code);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class MemoryLock : public testing::Test {
  protected:
    void SetUp() override {
        if (!locks_are_real) {
            GTEST_SKIP() << "a sanitizer's runtime does not lock";
        }
        if (const auto limit = lock_limit(); limit && *limit < 1 * GiB) {
            GTEST_SKIP() << "this process may lock " << format_bytes(*limit) << " only";
        }
    }
};

TEST_F(MemoryLock, HoldsOfWhatIsMappedBeforeAndAfter) {
    EXPECT_EQ(in_child([] {
                  char *const before = map_buffer();
                  lock_memory();
                  char *const after = map_buffer();
                  if (before == nullptr || after == nullptr) {
                      return 1;
                  }
                  for (char *const buffer : {before, after}) {
                      std::memset(buffer, 1, buffer_bytes / 2);
                      const Smaps smaps = smaps_of(buffer);
                      if (smaps.rss == 0 || smaps.locked < smaps.rss) {
                          return buffer == before ? 2 : 3;
                      }
                  }
                  return 0;
              }),
              0)
        << "2: not locked what was there before, 3: not what came after";
}

TEST_F(MemoryLock, MakesNothingResident) {
    EXPECT_EQ(in_child([] {
                  char *const before = map_buffer();
                  lock_memory();
                  char *const after = map_buffer();
                  std::array<unsigned char, buffer_bytes / 4096> pages{};
                  for (char *const buffer : {before, after}) {
                      if (buffer == nullptr || ::mincore(buffer, buffer_bytes, pages.data()) != 0) {
                          return 1;
                      }
                      for (const unsigned char page : pages) {
                          if ((page & 1U) != 0) {
                              return 2;
                          }
                      }
                  }
                  return 0;
              }),
              0);
}

TEST(MemoryLockLimit, RefusesWhatItCannotHoldAndNamesBothSums) {
    check_may_lock(100 * MiB, 60 * MiB, 40 * MiB);
    try {
        check_may_lock(100 * MiB, 61 * MiB, 40 * MiB);
        FAIL() << "not refused";
    } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::budget);
        EXPECT_THAT(error.what(), HasSubstr("may lock 100 MiB of memory, and needs to lock 61 MiB, and 40 MiB of"));
        EXPECT_THAT(error.what(), HasSubstr("ulimit -l"));
    }
}

} // namespace
} // namespace larder
