// scratch.h — a temporary folder for a test, removed by the destructor; and models that larder-make-model writes into
// it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace larder::test {

class Scratch {
  public:
    // In the working directory and not in /tmp, which may be in RAM and refuse direct I/O.
    Scratch() {
        std::string pattern = (std::filesystem::current_path() / "scratch-XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~Scratch() { std::filesystem::remove_all(path_); }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    [[nodiscard]] std::string operator/(const std::string &name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

#ifdef LARDER_MAKE_MODEL // not defined for unit tests
// Writes a model with larder-make-model and returns its path. `arguments` are the tool's arguments without --out.
inline std::string make_model(const Scratch &scratch, const std::string &name, const std::string &arguments) {
    const std::string path = scratch / name;
    const std::string command = std::string(LARDER_MAKE_MODEL) + " " + arguments + " --out '" + path + "' >/dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return path;
}
#endif

inline std::string contents(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace larder::test
