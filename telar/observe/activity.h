#pragma once

#include <filesystem>

namespace telar {

/// How much of the machine's processors others use while something is measured.
class OthersActivity {
 public:
  /// Begins to watch. Reads `root`/proc/stat; what this process uses the system says.
  explicit OthersActivity(const std::filesystem::path& root = "/");

  /// Processors that others kept busy, on average, since the beginning: 0.5 is half of one. What a hypervisor took away counts. 0 when
  /// the system does not say.
  double processors() const;

 private:
  struct Reading {
    double busy = 0;  ///< seconds of all processors, everybody
    double mine = 0;  ///< seconds of this process and those of its children that have ended
    double wall = 0;
  };
  Reading read() const;

  std::filesystem::path stat_;
  Reading start_;
};

}  // namespace telar
