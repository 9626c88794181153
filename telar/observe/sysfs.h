#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace telar {

/// The first line of a small file of the system's; empty when it cannot be read.
std::string read_line(const std::filesystem::path& path);

/// The same as a whole number, or `otherwise`.
int read_number(const std::filesystem::path& path, int otherwise);

/// "key : value" lines up to the first empty line, trimmed: one block of /proc/cpuinfo, a driver's information file.
std::map<std::string, std::string> read_fields(const std::filesystem::path& path);

/// What lies in a folder, by name; nothing when there is no such folder.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& path);

}  // namespace telar
