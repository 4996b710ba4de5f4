// output_files.h — refuses an output file that is also an input or another output.
#pragma once

#include <string>
#include <vector>

namespace larder {

// A file and the flag that names it.
struct NamedFile {
    std::string flag;
    std::string path; // empty: the flag was not given
};

// All files of the model that `flag` names. For a shard, also the other shards, by their file names.
std::vector<NamedFile> model_files(const std::string &flag, const std::string &path);

// The path at the end of a chain of symbolic links; the file need not exist. Returns `path` if the links form a loop.
std::string end_of_links(const std::string &path);

// Throws Error(usage), with both flags, if an output is the same file as an input or another output, under any name.
// Touches no file. Devices and pipes may be named twice.
void refuse_overwriting(const std::vector<NamedFile> &inputs, const std::vector<NamedFile> &outputs);

} // namespace larder
