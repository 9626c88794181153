#pragma once

#include <map>
#include <string>

namespace telar {

/// Whether a path stands for several files: its last part has a `*`, and no file has this very name.
bool is_file_pattern(const std::string& path);

/// The files of a pattern, such as shards/x-*.npy, by the text in the place of its `*`, in the order of their
/// names. Hidden files do not count. Throws Error (user): more than one `*`, a folder that cannot be read, no
/// files.
std::map<std::string, std::string> files_of_pattern(const std::string& pattern);

}  // namespace telar
