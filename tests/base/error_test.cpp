#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <string>
#include <system_error>

namespace larder {
namespace {

TEST(Error, SaysTheFaultAndTheRemedyInOneLine) {
    const Error error(ErrorKind::model, "x.gguf: not a GGUF", "give a GGUF file");
    EXPECT_STREQ(error.what(), "x.gguf: not a GGUF; give a GGUF file");
    EXPECT_STREQ(Error(ErrorKind::model, "broken").what(), "broken");
}

TEST(Error, GainsContextOnTheWayUpAndKeepsItsKindAndRemedy) {
    const Error error = Error(ErrorKind::io, "short read", "check the disk").within("loading x.gguf");
    EXPECT_STREQ(error.what(), "loading x.gguf: short read; check the disk");
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_EQ(error.remedy(), "check the disk");
}

TEST(Error, NamesTheErrnoValueInWords) {
    EXPECT_STREQ(Error::from_errno(ENOSPC, "writing s.json").what(), "writing s.json: No space left on device");
}

TEST(Error, OfAFileThatCannotBeOpenedHasTheRemedyForItsCause) {
    const std::map<int, std::string> remedies = {{ENOENT, "path"},       {ENOTDIR, "path"},     {EACCES, "permissions"},
                                                 {EPERM, "permissions"}, {EMFILE, "ulimit -n"}, {ENFILE, "file-max"},
                                                 {EIO, "dmesg"},         {ENOMEM, "memory"},    {ESTALE, "mount"}};
    for (const auto &[cause, remedy] : remedies) {
        const Error error = cannot_open("models/x.gguf", cause);
        EXPECT_EQ(error.kind(), ErrorKind::io);
        EXPECT_EQ(error.message(), "cannot open models/x.gguf: " + std::generic_category().message(cause));
        EXPECT_NE(error.remedy().find(remedy), std::string::npos) << error.what();
        EXPECT_EQ(error.remedy().find("path") != std::string::npos, remedy == "path") << error.what();
    }
    EXPECT_EQ(cannot_open("a\x1b[31m\nb.gguf", ENOENT).message(),
              "cannot open a?[31m?b.gguf: No such file or directory");
}

TEST(Error, HasAnExitCodeByKind) {
    EXPECT_EQ(exit_code(ErrorKind::usage), 2);
    EXPECT_EQ(exit_code(ErrorKind::budget), 3);
    EXPECT_EQ(exit_code(ErrorKind::io), 1);
    EXPECT_EQ(exit_code(ErrorKind::model), 1);
    EXPECT_EQ(exit_code(ErrorKind::differs), 1);
}

} // namespace
} // namespace larder
