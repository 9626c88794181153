#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace telar::bench {

/// Of one thing that was measured, by name: "memory_bytes".
struct Figures {
  std::map<std::string, double> by_name;
  /// 0 when there is none of that name.
  double of(const std::string& name) const;
};

/// What was kept of a thing; nothing when nothing was, or nothing that can be read.
Figures kept_figures(const std::string& of);
/// Keeps these in place of what was kept of that thing. Throws Error (run) where the file cannot be written.
void keep_figures(const std::string& of, const Figures& figures);

/// Where limits are kept: limits.json in cache_folder().
std::filesystem::path limits_file();

}  // namespace telar::bench
