#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "telar/comm/mpi/watch.h"

namespace telar::mpi {

/// Memory that each process of one host gives, of equal size, and all of them see. It has no name in any file system, so that
/// nothing is left behind when a process is killed.
class SharedRegions {
 public:
  /// At the head of each region; written by its own process only.
  struct Counts {
    alignas(64) std::atomic<uint64_t> arrived{0};
    alignas(64) std::atomic<uint64_t> delivered{0};
  };

  /// Zeroed. Null, for all processes, where one cannot open the memory of another (in containers of their own) or there is none
  /// left. All processes of `comm` call it, and must be on one host. Waits.
  static std::unique_ptr<SharedRegions> make(MPI_Comm comm, const Watch& watch, size_t bytes);
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
  bool open(MPI_Comm comm, const Watch& watch, int own_file);

  int rank_;
  size_t bytes_;
  std::vector<std::byte*> maps_;  ///< by process: head, then the memory
};

}  // namespace telar::mpi
