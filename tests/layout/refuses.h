// refuses.h — EXPECT that opening a model throws an Error with one line that names the file and the cause.
#pragma once

#include "base/error.h"
#include "layout/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

namespace larder {

inline std::optional<Error> refusal_of(const std::string &path) {
    try {
        open_layout(path);
    } catch (const Error &error) {
        return error;
    }
    return std::nullopt;
}

inline void expect_refusal(const std::string &path, const std::string &thing, ErrorKind kind = ErrorKind::model) {
    const std::optional<Error> error = refusal_of(path);
    ASSERT_TRUE(error) << path << " was accepted";
    EXPECT_EQ(error->kind(), kind);
    EXPECT_THAT(error->message(), testing::HasSubstr(std::filesystem::path(path).filename().string()));
    EXPECT_THAT(error->message(), testing::HasSubstr(thing));
    EXPECT_FALSE(error->remedy().empty()) << error->what();
    EXPECT_THAT(std::string(error->what()), testing::Not(testing::HasSubstr("\n")));
}

} // namespace larder
