// larder probe as a user runs it.
#include "base/bytes.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>

#include <unistd.h>

namespace larder::test {
namespace {

using testing::HasSubstr;

class Probe : public testing::Test {
  protected:
    // Uses a short time per sample, because the values do not matter here.
    static Finished probe(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), "probe");
        arguments.insert(arguments.end(), {"--seconds", "0.3", "--depths", "1,4"});
        return larder(arguments);
    }
    static nlohmann::json json_of(std::vector<std::string> arguments) {
        arguments.insert(arguments.end(), {"-o", "json"});
        const Finished result = probe(arguments);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return nlohmann::json::parse(result.out);
    }
    [[nodiscard]] size_t files_in_scratch() const {
        return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(scratch_ / ""), {}));
    }

    Scratch scratch_;
};

TEST_F(Probe, OfAModelReadsItsSlicesAndSaysWhatThatMeansForATokenOfIt) {
    const std::string model = make_model(scratch_, "m.gguf", "--arch qwen3moe --quant q4_k_m --layers 4 --experts 32");
    const auto account = nlohmann::json::parse(larder({"inspect", model, "--json"}).out);
    const auto json = json_of({model});
    uint64_t token_bytes = 0;
    for (const auto &size_class : account.at("size_classes")) {
        token_bytes +=
            size_class.at("slot_bytes").get<uint64_t>() * size_class.at("n_slices_per_token").get<uint64_t>();
        const auto rows = std::count_if(json.at("disk").begin(), json.at("disk").end(), [&](const auto &sample) {
            return sample.at("request_bytes") == size_class.at("slot_bytes");
        });
        EXPECT_EQ(rows, 4) << "random and sequential at two depths";
    }
    for (const auto &sample : json.at("disk")) {
        EXPECT_GT(sample.at("bytes_per_second"), 0);
        EXPECT_GT(sample.at("latency_us_median"), 0);
        EXPECT_LE(sample.at("bytes_read"), account.at("file_bytes"));
    }
    EXPECT_GE(json.at("memory").size(), 1U);
    const auto &verdict = json.at("verdict");
    EXPECT_EQ(verdict.at("token_read_bytes"), token_bytes);
    EXPECT_GT(verdict.at("token_memory_bytes"), account.at("token_bytes"));
    const double no_hits = verdict.at("disk_tok_s_no_hits");
    EXPECT_DOUBLE_EQ(no_hits, verdict.at("slice_bytes_per_second").get<double>() / static_cast<double>(token_bytes));
    EXPECT_DOUBLE_EQ(verdict.at("disk_tok_s_typical"), 4 * no_hits);
    EXPECT_GE(verdict.at("crossing_hit_rate"), 0);
    EXPECT_LT(verdict.at("crossing_hit_rate"), 1);

    const Finished table = probe({model});
    EXPECT_EQ(table.exit_code, 0) << table.err;
    EXPECT_THAT(table.out, HasSubstr("verdict: this model's slices are read at"));
    EXPECT_THAT(table.out, HasSubstr("at a hit rate of 75 %"));
}

TEST_F(Probe, OfAnyFileReadsTheSizesThatAreAskedFor) {
    std::ofstream(scratch_ / "some.bin") << std::string(3 * MiB, 'x');
    const auto json = json_of({scratch_ / "some.bin", "--sizes", "64K,256K"});
    EXPECT_EQ(json.at("disk").size(), 8U);
    EXPECT_EQ(json.at("disk").at(0).at("request_bytes"), 64 * KiB);
    EXPECT_EQ(json.at("verdict"), nullptr);
    EXPECT_EQ(json_of({scratch_ / "some.bin"}).at("disk").size(), 8U) << "of 256K, 1M and 4M those that fit";
    EXPECT_THAT(probe({scratch_ / "some.bin"}).out, HasSubstr("verdict: random reads run at"));
}

TEST_F(Probe, OfADirectoryWritesAFileThereAndLeavesNothing) {
    const Finished result = probe({scratch_ / "", "--size", "8M"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(": 8 MiB, "));
    EXPECT_EQ(files_in_scratch(), 0U);
}

TEST_F(Probe, LeavesNothingInADirectoryWhenItIsKilled) {
    Process process({LARDER_PROGRAM, "probe", scratch_ / "", "--size", "8M", "--seconds", "60"});
    usleep(300'000);
    process.signal(SIGKILL);
    EXPECT_EQ(process.wait().exit_code, 128 + SIGKILL);
    EXPECT_EQ(files_in_scratch(), 0U);
}

TEST_F(Probe, SaysThatAFileSystemInMemoryIsNoDisk) {
    if (access("/dev/shm", W_OK) != 0) {
        GTEST_SKIP() << "no /dev/shm";
    }
    for (const std::string direct : {"auto", "off"}) {
        const Finished result = probe({"/dev/shm", "--size", "8M", "--direct-io", direct});
        EXPECT_EQ(result.exit_code, 0) << result.err;
        EXPECT_THAT(result.out, HasSubstr("RAM (tmpfs), not a disk"));
        EXPECT_THAT(result.out, HasSubstr("note: the temporary file in /dev/shm lies in memory (tmpfs)"));
        EXPECT_THAT(result.out, HasSubstr("\nverdict (RAM, not a disk): "));
    }
    const auto json = json_of({"/dev/shm", "--size", "8M"});
    EXPECT_EQ(json.at("in_memory"), true);
    EXPECT_EQ(json.at("direct_io"), false);
    EXPECT_THAT(json.at("notices").dump(), HasSubstr("lies in memory (tmpfs)"));
    const Finished required = probe({"/dev/shm", "--size", "8M", "--direct-io", "required"});
    EXPECT_EQ(required.exit_code, 1);
    EXPECT_THAT(required.err, HasSubstr("the temporary file in /dev/shm lies in memory (tmpfs)"));
}

TEST_F(Probe, SaysOfAFileOnADiskThatItIsOne) {
    std::ofstream(scratch_ / "some.bin") << std::string(MiB, 'x');
    const auto json = json_of({scratch_ / "some.bin", "--sizes", "64K"});
    if (json.at("in_memory") == true) {
        GTEST_SKIP() << "the scratch folder lies in memory";
    }
    EXPECT_EQ(json.at("in_memory"), false);
    const Finished table = probe({scratch_ / "some.bin", "--sizes", "64K"});
    EXPECT_THAT(table.out, testing::Not(HasSubstr("RAM")));
    EXPECT_THAT(table.out, HasSubstr("\nverdict: "));
}

TEST_F(Probe, SaysThatAFileSystemRefusesDirectReads) {
    const std::string file = "/sys/kernel/btf/vmlinux"; // a file of some megabytes; sysfs does not support O_DIRECT
    if (access(file.c_str(), R_OK) != 0) {
        GTEST_SKIP() << "no " << file;
    }
    const Finished result = probe({file, "--sizes", "64K"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("through the page cache"));
    EXPECT_THAT(result.out, HasSubstr("refuses direct I/O (O_DIRECT"));
    const Finished required = probe({file, "--sizes", "64K", "--direct-io", "required"});
    EXPECT_EQ(required.exit_code, 1);
    EXPECT_THAT(required.err, HasSubstr("refuses direct I/O (O_DIRECT"));
}

TEST_F(Probe, NeverTakesThePageCacheForTheDisk) {
    std::ofstream(scratch_ / "some.bin") << std::string(2 * MiB, 'x'); // now in the page cache, and dirty
    const auto json = json_of({scratch_ / "some.bin", "--sizes", "64K", "--direct-io", "off"});
    EXPECT_EQ(json.at("direct_io"), false);
    for (const auto &sample : json.at("disk")) {
        EXPECT_EQ(sample.at("cached_bytes"), 0);
    }
}

TEST_F(Probe, RefusesWhatItCannotMeasure) {
    const auto refused = [](const std::vector<std::string> &arguments, int exit_code, const std::string &text) {
        const Finished result = probe(arguments);
        EXPECT_EQ(result.exit_code, exit_code) << result.err;
        EXPECT_THAT(result.err, HasSubstr(text));
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
        EXPECT_EQ(result.out, "");
    };
    std::ofstream(scratch_ / "small.bin") << std::string(20 * KiB, 'x');
    refused({scratch_ / "absent"}, 1, "absent: No such file");
    refused({scratch_ / "small.bin"}, 2, "no read of 256 KiB fits into");
    refused({scratch_ / "small.bin", "--sizes", "many"}, 2, "--sizes: 'many' is not a size");
    refused({scratch_ / "small.bin", "--depths", "0"}, 2, "a depth of 0");
    refused({scratch_ / "", "--size", "1"}, 2,
            "--size: a file of 1 B in " + (scratch_ / "") + " is too small for a read of 256 KiB");
    refused({scratch_ / "", "--size", "1"}, 2, "; give 256K or more");
    refused({scratch_ / "", "--size", "64K", "--sizes", "4K,128K"}, 2, "; give 128K or more");
    refused({scratch_ / "", "--size", "1000000T"}, 2, "--size: ");
    refused({scratch_ / "", "--size", "1000000T"}, 2, " has free; lower it or name another directory");
    refused({"/dev/null"}, 1, "is not a file");
    refused({"/proc"}, 1, "/proc");
    refused({}, 2, "path");
}

TEST_F(Probe, SaysThatThreadsCannotBeStarted) {
    const Finished result = larder_without_threads({"probe", "--seconds", "0.1", "-t", "3", LARDER_PROGRAM});
    if (result.exit_code >= 126) {
        GTEST_SKIP() << "cannot run as another user: " << result.err;
    }
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("cannot start 1 thread(s) to read memory: "));
    EXPECT_THAT(result.err, HasSubstr("(ulimit -u)"));
}

TEST_F(Probe, ReadsWhatOnlyBeginsLikeAModelAsAnyFile) {
    std::ofstream(scratch_ / "broken.gguf") << "GGUF" << std::string(2 * MiB, 'x');
    const Finished result = probe({scratch_ / "broken.gguf"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("note: measured as a plain file, not as a model"));
}

} // namespace
} // namespace larder::test
