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

TEST(Error, JoinsItsRemediesAndLetsThemBeChangedByKind) {
    const Error error(
        ErrorKind::budget, "too small",
        {{RemedyKind::larger_budget, "use --ram 8M or more", 8U << 20U}, {RemedyKind::shorter_context, "lower -c"}});
    EXPECT_STREQ(error.what(), "too small; use --ram 8M or more, or lower -c");
    ASSERT_NE(error.find_remedy(RemedyKind::larger_budget), nullptr);
    EXPECT_EQ(error.find_remedy(RemedyKind::larger_budget)->amount, 8U << 20U);
    EXPECT_EQ(error.find_remedy(RemedyKind::arena), nullptr);

    const Error shorter = error.without_remedies(RemedyKind::larger_budget);
    EXPECT_STREQ(shorter.what(), "too small; lower -c");
    EXPECT_EQ(shorter.find_remedy(RemedyKind::larger_budget), nullptr);
    EXPECT_STREQ(shorter.without_remedies(RemedyKind::shorter_context).what(), "too small");
    EXPECT_STREQ(error.with_remedy({RemedyKind::other, "pray"}).what(),
                 "too small; use --ram 8M or more, or lower -c, or pray");
    EXPECT_STREQ(error.with_remedies({}).what(), "too small");
    EXPECT_EQ(error.within("plan").remedies().size(), 2U);
    EXPECT_EQ(error.with_remedies({}).kind(), ErrorKind::budget);
    EXPECT_TRUE(Error(ErrorKind::io, "broken").remedies().empty());
}

TEST(Error, NamesTheErrnoValueInWords) {
    EXPECT_STREQ(Error::from_errno(ENOSPC, "writing s.json").what(), "writing s.json: No space left on device");
}

TEST(Error, OfALimitOfOpenFilesSaysToRaiseIt) {
    EXPECT_STREQ(Error::from_errno(EMFILE, "cannot make a pipe", "allow more processes").what(),
                 "cannot make a pipe: Too many open files; raise the limit of open files (ulimit -n)");
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

TEST(PrintableText, IsCutAtACharacterAndMarked) {
    EXPECT_EQ(printable("name", 4), "name");
    EXPECT_EQ(printable("names", 4), "name…");
    EXPECT_EQ(printable("größer", 4), "größ…");
    EXPECT_EQ(printable("", 4), "");
    EXPECT_EQ(printable(std::string(100'000, 'x'), quoted_characters_max), std::string(80, 'x') + "…");
    EXPECT_EQ(printable("a\nb\x1b[2Jc", 5), "a?b?[…");
}

TEST(PrintableText, ThatIsNotUtf8IsCutToo) {
    EXPECT_LT(printable(std::string(100'000, '\x80'), 10).size(), 50U);
    EXPECT_LT(printable(std::string(100'000, '\xff'), 10).size(), 50U);
}

} // namespace
} // namespace larder
