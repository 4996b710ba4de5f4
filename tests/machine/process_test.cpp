// Process set-up. tests/cli tests the restart, on the program.
#include "machine/process.h"

#include "machine/threads.h"

#include <gtest/gtest.h>

#include <pthread.h>

#include <thread>

namespace larder {
namespace {

TEST(Process, HasStacksOfOneSizeOnceItIsSetUp) {
    set_up_process(nullptr);
    size_t stack = 0;
    std::thread([&] {
        pthread_attr_t attributes;
        ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
        ASSERT_EQ(pthread_attr_getstacksize(&attributes, &stack), 0);
        pthread_attr_destroy(&attributes);
    }).join();
    EXPECT_EQ(stack, thread_stack_bytes);
}

TEST(Process, CountsItsThreadsBesideTheMainOne) {
    check_threads_can_start(8);
    const uint64_t before = threads_running();
    std::thread([&] { EXPECT_EQ(threads_running(), before + 1); }).join();
}

} // namespace
} // namespace larder
