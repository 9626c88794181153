#pragma once

#include <memory>
#include <vector>

#include "telar/comm/group.h"

namespace telar {

/// Makes the members of a group of threads of this process. They see each other's memory, so that nothing is copied: each
/// member reads the others' buckets and writes the sum of its shard into its own. Each member is used by one thread.
class ThreadTeam {
 public:
  explicit ThreadTeam(int size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  Group& member(int rank);
  /// Frees every member that waits, now and later, with an Error saying that `rank` failed.
  void fail(int rank);
  /// After all members have stopped: ready for new work.
  void reset();

  struct Shared;

 private:
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Group>> members_;
};

}  // namespace telar
