// A job in the text process cannot affect this process, and always ends.
#include "text/text_process.h"

#include "machine/process_memory.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

namespace larder::test {
namespace {

std::string echo(const std::string &request) { return request + request; }
std::string refuse(const std::string &request) { throw std::runtime_error("not " + request); }

volatile uint64_t sink = 0;

std::string loop_for_ever(const std::string & /*request*/) {
    for (;;) {
        sink = sink + 1;
    }
}

std::string allocate_for_ever(const std::string & /*request*/) {
    std::vector<std::string> all;
    for (;;) {
        all.emplace_back(1 << 20, 'x');
    }
}

uint64_t depth_of(uint64_t n) { // NOLINT(misc-no-recursion)
    std::array<volatile char, 256> frame{};
    frame[n % frame.size()] = 1;
    return sink != 0 ? 0 : depth_of(n + 1) + static_cast<uint64_t>(frame[0]);
}

std::string recurse_for_ever(const std::string & /*request*/) { return std::to_string(depth_of(0)); }

std::string divide(const std::string &request) {
    sink = request.size();
    return std::to_string(1000 / sink);
}

std::string abort_now(const std::string & /*request*/) { std::abort(); }
std::string dereference_null(const std::string & /*request*/) { return {1, *reinterpret_cast<volatile char *>(sink)}; }

std::string pid(const std::string & /*request*/) { return std::to_string(getpid()); }

// Sends the signals that a process group gets to the text process and to the job.
std::string survive_signals(const std::string & /*request*/) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
        kill(getppid(), number);
        kill(getpid(), number);
    }
    return std::to_string(getppid());
}

std::string files_open(const std::string & /*request*/) {
    int open = 0;
    for (int fd = 3; fd < 1024; fd++) {
        open += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    }
    return std::to_string(open);
}

TEST(TextProcess, AnswersWithWhatTheJobMakes) {
    EXPECT_EQ(run_job(echo, "ab", {}).end, JobEnd::done);
    EXPECT_EQ(run_job(echo, "ab", {}).text, "abab");
    EXPECT_EQ(run_job(echo, "", {}).text, "");
    const std::string large(5 << 20, 'x'); // more than the socket buffers hold
    EXPECT_EQ(run_job(echo, large, {}).text, large + large);
}

TEST(TextProcess, SaysWhyAJobRefused) {
    const JobResult result = run_job(refuse, "this", {});
    EXPECT_EQ(result.end, JobEnd::refused);
    EXPECT_EQ(result.text, "not this");
}

TEST(TextProcess, EndsWhatTakesTooMuch) {
    EXPECT_EQ(run_job(loop_for_ever, "", {.cpu_ms = 30}).end, JobEnd::processor);
    EXPECT_EQ(run_job(recurse_for_ever, "", {}).end, JobEnd::stack);
    EXPECT_EQ(run_job(echo, "12345", {.result_bytes = 9}).end, JobEnd::large);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // sanitizers' allocators end the process
    EXPECT_EQ(run_job(allocate_for_ever, "", {}).end, JobEnd::memory);
#endif
}

TEST(TextProcess, OutlivesWhatCrashes) {
    for (const Job job : {divide, abort_now, dereference_null}) {
        EXPECT_EQ(run_job(job, "", {}).end, JobEnd::crashed);
        EXPECT_EQ(run_job(echo, "x", {}).text, "xx");
    }
}

TEST(TextProcess, StopsWhenAsked) {
    int asked = 0;
    EXPECT_EQ(run_job(loop_for_ever, "", {.cpu_ms = 200}, [&] { return ++asked > 1; }).end, JobEnd::stopped);
}

TEST(TextProcess, RunsJobsOfSeveralThreadsEachInAProcessOfItsOwn) {
    std::vector<std::thread> threads;
    std::array<std::string, 8> answers;
    for (std::string &answer : answers) {
        threads.emplace_back([&answer] { answer = run_job(pid, "", {}).text; });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (size_t i = 0; i < answers.size(); i++) {
        EXPECT_NE(answers[i], std::to_string(getpid()));
        EXPECT_EQ(std::count(answers.begin(), answers.end(), answers[i]), 1) << i;
    }
}

TEST(TextProcess, LeavesTheSignalsOfItsGroupToThisProcess) {
    const std::string text_process = run_job(survive_signals, "", {}).text;
    EXPECT_NE(text_process, "");
    EXPECT_EQ(run_job(survive_signals, "", {}).text, text_process) << "it was started again";
}

TEST(TextProcess, CountsAsAPartOfThisProcess) {
    start_text_process();
    EXPECT_EQ(run_job(echo, "x", {}).text, "xx"); // it runs
    EXPECT_GT(held_bytes(), anonymous_bytes());
}

TEST(TextProcess, HoldsNoFileOfThisProcess) {
    EXPECT_EQ(run_job(files_open, "", {}).text, "1"); // only its socket
}

} // namespace
} // namespace larder::test
