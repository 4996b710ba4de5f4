// trace_file.h — writes trace files for tests, and checks the errors of read_trace().
#pragma once

#include "base/error.h"
#include "lab/trace/trace.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace larder::test {

class TraceFiles : public testing::Test {
  protected:
    std::string write(const std::string &name, const std::string &text) {
        const std::string path = folder_ / name;
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }

    // Expects that the file is refused with a message that names the file, the line and `thing`.
    void expect_refusal(const std::string &text, size_t line, const std::string &thing) {
        const std::string path = write("bad.trace", text);
        try {
            read_trace(path);
        } catch (const Error &error) {
            EXPECT_EQ(error.kind(), ErrorKind::model);
            EXPECT_THAT(error.message(), testing::StartsWith(path + ":" + std::to_string(line) + ": "));
            EXPECT_THAT(error.message(), testing::HasSubstr(thing));
            EXPECT_FALSE(error.remedy().empty());
            return;
        }
        ADD_FAILURE() << "accepted: " << text;
    }

    Scratch folder_;
};

} // namespace larder::test
