// output_files.h — what a command writes may be neither what it reads nor what it writes elsewhere.
#pragma once

#include <string>
#include <vector>

namespace larder {

// A file and the flag that named it.
struct NamedFile {
    std::string flag;
    std::string path; // empty: none was named
};

// All files of the model that `flag` names: of a shard, going by its name, its siblings too.
std::vector<NamedFile> model_files(const std::string &flag, const std::string &path);

// Where a name leads through symbolic links, whether there is a file or not; the name itself if they lead in a circle.
std::string end_of_links(const std::string &path);

// Throws Error(usage) that names both flags if an output is one of the inputs, under whatever name, or two outputs are
// one file. Touches nothing. Devices and pipes may be named twice.
void refuse_overwriting(const std::vector<NamedFile> &inputs, const std::vector<NamedFile> &outputs);

} // namespace larder
