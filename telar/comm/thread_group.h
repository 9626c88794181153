#pragma once

#include <memory>
#include <vector>

#include "telar/comm/group.h"

namespace telar {

/// Makes the members of a group of threads in this process. They share memory, so nothing is copied: each
/// member reads the others' buckets and writes the sum of its shard into its own. Each member is used by one
/// thread.
class ThreadTeam {
 public:
  explicit ThreadTeam(int size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  Group& member(int rank);
  /// Ends all present and future waits of the members with an Error that reports that `rank` failed.
  void fail(int rank);
  /// Makes the team usable again. Call after all members have stopped.
  void reset();

  struct Shared;

 private:
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Group>> members_;
};

}  // namespace telar
