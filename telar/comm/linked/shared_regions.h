#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "telar/comm/linked/collectives.h"

namespace telar {

/// Memory of equal size from each process of one host, visible to all of them. It has no name in any file
/// system, so a killed process leaves nothing behind.
class SharedRegions {
 public:
  /// At the head of each region; written only by the region's process.
  struct Counts {
    alignas(64) std::atomic<uint64_t> arrived{0};
    alignas(64) std::atomic<uint64_t> delivered{0};
  };

  /// Allocates zeroed memory. Returns null in all processes if one cannot open the memory of another
  /// (separate containers) or memory is short. All processes of the circle must call it and be on one host.
  /// Waits.
  static std::unique_ptr<SharedRegions> make(const Circle& circle, size_t bytes);
  ~SharedRegions();
  SharedRegions(const SharedRegions&) = delete;
  SharedRegions& operator=(const SharedRegions&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(maps_.size()); }
  std::span<std::byte> own() const { return of(rank_); }
  std::span<std::byte> of(int process) const;
  Counts& counts(int process) const;

 private:
  SharedRegions(int rank, size_t size, size_t bytes) : rank_(rank), bytes_(bytes), maps_(size, nullptr) {}
  bool open(const Circle& circle, int own_file);

  int rank_;
  size_t bytes_;
  std::vector<std::byte*> maps_;  ///< by process: the head, then the memory
};

}  // namespace telar
