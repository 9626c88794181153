#include "telar/observe/sysfs.h"

#include <algorithm>
#include <fstream>

namespace telar {
namespace {

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

std::string read_line(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return trimmed(line);
}

int read_number(const std::filesystem::path& path, int otherwise) {
  std::ifstream stream(path);
  int number = 0;
  return stream >> number ? number : otherwise;
}

std::map<std::string, std::string> read_fields(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::map<std::string, std::string> fields;
  for (std::string line; std::getline(stream, line) && !trimmed(line).empty();) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos) fields[trimmed(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
  }
  return fields;
}

std::vector<std::filesystem::path> list_folder(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace telar
