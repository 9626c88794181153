#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telar/comm/members/coordinator.h"
#include "telar/comm/members/work_source.h"

namespace telar {

/// A Coordinator whose members are threads of its own process, without a network. It takes the same decisions
/// (MemberRegistry). A thread does not vanish, so there are no lost members, only those that leave. All calls
/// but those of members are made by one thread.
class LocalCoordinator {
 public:
  /// Of the options, those of the work and `workers` to `rounds_before` count.
  explicit LocalCoordinator(const CoordinatorOptions& options);
  /// The training is over for all members, which may outlive this object.
  ~LocalCoordinator();
  LocalCoordinator(const LocalCoordinator&) = delete;
  LocalCoordinator& operator=(const LocalCoordinator&) = delete;

  /// A new member; `name` is for messages.
  std::unique_ptr<WorkSource> join(const std::string& name);

  // Like those of Coordinator.
  void begin_epoch(uint32_t epoch, int64_t first, int64_t steps);
  void drain();
  bool epoch_finished() const;
  int64_t steps_done() const;
  std::vector<StepDone> wait(double seconds);

 private:
  class Shared;
  class Member;
  std::shared_ptr<Shared> shared_;
};

}  // namespace telar
