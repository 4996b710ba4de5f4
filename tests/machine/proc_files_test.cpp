#include "machine/proc_files.h"

#include "machine/process_memory.h"
#include "support/fake_root.h"

#include <gmock/gmock.h>

namespace larder::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ProcFiles : public testing::Test {
  protected:
    [[nodiscard]] std::string file(const std::string &text) const {
        root_.write("/file", text);
        return root_.path() + "/file";
    }
    FakeRoot root_;
};

TEST_F(ProcFiles, AreReadWhole) {
    const std::string text(100'001, 'x');
    EXPECT_EQ(read_text(file(text)), text);
    EXPECT_EQ(read_text(file("")), "");
    EXPECT_EQ(read_text(root_.path() + "/absent"), "");
    EXPECT_EQ(read_text(root_.path()), "") << "a folder";
}

TEST_F(ProcFiles, OfOneNumber) {
    EXPECT_EQ(read_number(file("123\n")), 123U);
    EXPECT_EQ(read_number(file("18446744073709551615")), UINT64_MAX);
    for (const char *text : {"max\n", "-1\n", "12x\n", "1 2\n", "", "\n", "18446744073709551616\n"}) {
        EXPECT_EQ(read_number(file(text)), std::nullopt) << text;
    }
    EXPECT_EQ(read_number(root_.path() + "/absent"), std::nullopt);
}

TEST_F(ProcFiles, OfKeysAndValues) {
    const KeyedFile keyed(file("Name:\tlarder a\nVmRSS:\t  12 kB\nVmRSSx: 7\nanon 77\nanon_thp 5\nempty:\n"
                               "bad: 4x\nsize: 3\nanon 78\n"));
    EXPECT_EQ(keyed.find("VmRSS"), 12U);
    EXPECT_EQ(keyed.bytes("VmRSS"), 12 * KiB);
    EXPECT_EQ(keyed.bytes("size"), 3U);
    EXPECT_EQ(keyed.find("anon"), 77U) << "the first line with the key";
    EXPECT_EQ(keyed.find("Vm"), std::nullopt) << "a key is a whole word";
    EXPECT_EQ(keyed.find("empty"), std::nullopt);
    EXPECT_EQ(keyed.find("bad"), std::nullopt);
    EXPECT_EQ(keyed.bytes("absent"), 0U);
    EXPECT_EQ(keyed.value("Name"), "larder a");
}

TEST_F(ProcFiles, OfListsOfNumbers) {
    EXPECT_THAT(parse_list("0-3,8\n"), ElementsAre(0, 1, 2, 3, 8));
    EXPECT_THAT(parse_list("5"), ElementsAre(5));
    for (const char *text : {"", "\n", "a", "3-1", "1,,2", "1-", "0-99999999999", "-"}) {
        EXPECT_THAT(parse_list(text), IsEmpty()) << text;
    }
}

TEST_F(ProcFiles, OfThisProcessSayWhatItHolds) {
    root_.write("/proc/self/status", "VmHWM:\t 900 kB\nVmRSS:\t 800 kB\nRssAnon:\t 500 kB\nRssFile:\t 290 kB\n"
                                     "RssShmem:\t 10 kB\nVmSwap:\t 3 kB\nVmLck:\t 4 kB\n");
    root_.write("/proc/self/io", "rchar: 5\nread_bytes: 4096\nwrite_bytes: 8192\n");
    const ProcessMemory memory = process_memory(root_.path());
    EXPECT_EQ(memory.rss_bytes, 800 * KiB);
    EXPECT_EQ(memory.peak_rss_bytes, 900 * KiB);
    EXPECT_EQ(memory.anonymous_bytes, 510 * KiB);
    EXPECT_EQ(memory.vm_swap_bytes, 3 * KiB);
    EXPECT_EQ(memory.locked_bytes, 4 * KiB);
    EXPECT_EQ(memory.read_bytes, 4096U);
    EXPECT_EQ(memory.written_bytes, 8192U);
    EXPECT_EQ(anonymous_bytes(root_.path()), 510 * KiB);
    root_.write("/proc/self/status", "VmRSS:\t 800 kB\n");
    EXPECT_EQ(anonymous_bytes(root_.path()), 800 * KiB) << "a kernel that does not tell";
    EXPECT_GT(process_memory().anonymous_bytes, 0U);
    EXPECT_GT(process_memory().rss_bytes, process_memory().anonymous_bytes);
}

} // namespace
} // namespace larder::test
