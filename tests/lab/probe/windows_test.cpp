// The places of a measurement: each occurs once, none is past the end of its file, and their order is random.
#include "lab/probe/windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace larder::test {
namespace {

constexpr uint64_t window_bytes = 8192;

TEST(Windows, OfRandomOrderAreEachThereOnce) {
    for (const uint64_t n : {1, 2, 3, 4, 5, 7, 64, 1000, 4097}) {
        const Windows windows({n * window_bytes}, window_bytes, 7);
        ASSERT_EQ(windows.count(), n);
        std::set<uint64_t> offsets;
        for (uint64_t i = 0; i < n; i++) {
            const WindowPlace place = windows.random(i);
            EXPECT_EQ(place.offset % window_bytes, 0U);
            EXPECT_LT(place.offset, n * window_bytes);
            offsets.insert(place.offset);
        }
        EXPECT_EQ(offsets.size(), n);
    }
}

TEST(Windows, LieInEveryFileAndReachPastTheEndOfNone) {
    const std::vector<uint64_t> file_bytes = {3 * window_bytes + 100, 100, 2 * window_bytes};
    const Windows windows(file_bytes, window_bytes, 1);
    ASSERT_EQ(windows.count(), 5U);
    std::map<uint32_t, std::set<uint64_t>> places;
    for (uint64_t i = 0; i < 5; i++) {
        const WindowPlace place = windows.sequential(i);
        places[place.file].insert(place.offset);
        EXPECT_LE(place.offset + window_bytes, file_bytes[place.file]);
    }
    EXPECT_EQ(places[0], (std::set<uint64_t>{0, window_bytes, 2 * window_bytes}));
    EXPECT_EQ(places[2], (std::set<uint64_t>{0, window_bytes}));
    EXPECT_FALSE(places.contains(1));
}

TEST(Windows, OfRandomOrderDependOnTheSeedAndRarelyFollowOneAnother) {
    constexpr uint64_t n = 10'000;
    const Windows one({n * window_bytes}, window_bytes, 1);
    const Windows two({n * window_bytes}, window_bytes, 2);
    uint64_t equal = 0;
    uint64_t neighbours = 0;
    for (uint64_t i = 0; i + 1 < n; i++) {
        equal += one.random(i).offset == two.random(i).offset ? 1 : 0;
        neighbours += one.random(i).offset + window_bytes == one.random(i + 1).offset ? 1 : 0;
    }
    EXPECT_LT(equal, 50U);      // expected by chance: one
    EXPECT_LT(neighbours, 50U); // expected by chance: one
}

} // namespace
} // namespace larder::test
