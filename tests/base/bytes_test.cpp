#include "base/bytes.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace larder {
namespace {

TEST(Bytes, AreReadInEverySpellingUsersKnow) {
    EXPECT_EQ(parse_bytes("8G", "--ram"), 8 * GiB);
    EXPECT_EQ(parse_bytes("8GiB", "--ram"), 8 * GiB);
    EXPECT_EQ(parse_bytes("8GB", "--ram"), 8 * GiB);
    EXPECT_EQ(parse_bytes("8g", "--ram"), 8 * GiB);
    EXPECT_EQ(parse_bytes("8192M", "--ram"), 8 * GiB);
    EXPECT_EQ(parse_bytes("1.5G", "--ram"), GiB + GiB / 2);
    EXPECT_EQ(parse_bytes("64K", "--ram"), 64 * KiB);
    EXPECT_EQ(parse_bytes("1T", "--ram"), 1024 * GiB);
    EXPECT_EQ(parse_bytes("1048576", "--ram"), MiB);
    EXPECT_EQ(parse_bytes("512B", "--ram"), 512U);
}

TEST(Bytes, RefuseNonsenseAndNameTheFlag) {
    for (const char *text :
         {"", "G", "8X", "8GG", "8 G", "-8G", "0", "0G", "nan", "inf", "1e30", "8Gi", "8GiBs", "99999999T"}) {
        try {
            parse_bytes(text, "--ram");
            ADD_FAILURE() << "'" << text << "' was accepted";
        } catch (const Error &error) {
            EXPECT_EQ(error.kind(), ErrorKind::usage);
            EXPECT_NE(std::string(error.what()).find("--ram"), std::string::npos);
        }
    }
}

TEST(Percent, IsReadAsAShare) {
    EXPECT_EQ(parse_percent("50%", "--ram"), 0.5);
    EXPECT_EQ(parse_percent("100%", "--ram"), 1.0);
    EXPECT_EQ(parse_percent("12.5%", "--ram"), 0.125);
}

TEST(Percent, RefusesNonsenseAndNamesTheFlag) {
    for (const char *text : {"", "%", "50", "0%", "-1%", "101%", "100.1%", "nan%", "5 %", "5%%", "1e1%", "half%"}) {
        try {
            parse_percent(text, "--cache");
            ADD_FAILURE() << "'" << text << "' was accepted";
        } catch (const Error &error) {
            EXPECT_EQ(error.kind(), ErrorKind::usage);
            EXPECT_NE(std::string(error.what()).find("--cache"), std::string::npos);
        }
    }
}

TEST(Bytes, AreWrittenShort) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
    EXPECT_EQ(format_bytes(1536), "1.5 KiB");
    EXPECT_EQ(format_bytes(8 * GiB), "8 GiB");
    EXPECT_EQ(format_bytes(18 * GiB + 164 * MiB), "18.16 GiB");
}

TEST(Bytes, AlignToPowersOfTwo) {
    EXPECT_EQ(align_up(1, 4096), 4096U);
    EXPECT_EQ(align_up(4096, 4096), 4096U);
    EXPECT_EQ(align_down(4097, 4096), 4096U);
    EXPECT_EQ(align_up(0, 4096), 0U);
}

} // namespace
} // namespace larder
