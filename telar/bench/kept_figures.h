#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace telar::bench {

/// Stored measurements of one subject, by name: "memory_bytes".
struct Figures {
  std::map<std::string, double> by_name;
  /// 0 if there is none with that name.
  double of(const std::string& name) const;
};

/// The stored figures of a subject; empty if there are none, or none that can be read.
Figures kept_figures(const std::string& of);
/// Stores the figures of a subject and replaces earlier ones. Throws Error (run) if the file cannot be
/// written.
void keep_figures(const std::string& of, const Figures& figures);

/// The file with the stored limits: limits.json in cache_folder().
std::filesystem::path limits_file();

}  // namespace telar::bench
