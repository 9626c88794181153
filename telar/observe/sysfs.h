#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace telar {

/// Returns the first line of a small system file; empty if it cannot be read.
std::string read_line(const std::filesystem::path& path);

/// Returns the file's whole number, or `otherwise` if it cannot be read.
int read_number(const std::filesystem::path& path, int otherwise);

/// Reads "key : value" lines up to the first empty line, trimmed: one block of /proc/cpuinfo, or a driver's
/// information file.
std::map<std::string, std::string> read_fields(const std::filesystem::path& path);

/// The entries of a folder, sorted by name; empty if there is no such folder.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& path);

}  // namespace telar
