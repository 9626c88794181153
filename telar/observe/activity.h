#pragma once

#include <filesystem>

namespace telar {

/// How much CPU time other processes use during a measurement.
class OthersActivity {
 public:
  /// Starts to watch. Reads `root`/proc/stat; the system reports what this process uses.
  explicit OthersActivity(const std::filesystem::path& root = "/");

  /// Mean number of CPUs that others have kept busy since the start: 0.5 is half of one CPU. Time taken away
  /// by a hypervisor counts. 0 if the system does not report it.
  double processors() const;

 private:
  struct Reading {
    double busy = 0;  ///< seconds of all CPUs, for all processes
    double mine = 0;  ///< seconds of this process and its ended children
    double wall = 0;
  };
  Reading read() const;

  std::filesystem::path stat_;
  Reading start_;
};

}  // namespace telar
