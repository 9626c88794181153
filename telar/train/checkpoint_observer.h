#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <string>

#include "telar/comm/processes.h"
#include "telar/train/checkpoint.h"
#include "telar/train/training_observer.h"

namespace telar {

struct CheckpointPolicy {
  int64_t every_epochs = 1;  ///< 0: no checkpoints at epochs
  int64_t every_steps = 0;   ///< 0: no checkpoints at steps; training pauses for them (pause_steps)
  int64_t keep = 2;
};

/// Says when a checkpoint is due. All processes of a run come to the same result.
class CheckpointTimes : public TrainingObserver {
 public:
  explicit CheckpointTimes(CheckpointPolicy policy) : policy_(policy) {}
  void epoch_done(const EpochReport& report, const TrainingState& state) final;
  void paused(const TrainingState& state) final { due(state); }

 protected:
  virtual void due(const TrainingState& state) = 0;
  const CheckpointPolicy& policy() const { return policy_; }

 private:
  CheckpointPolicy policy_;
};

/// How checkpoints are written.
struct CheckpointWriting {
  std::filesystem::path folder;
  ExtraFiles files = {};  ///< added to every checkpoint
  std::function<void()> before =
      {};               ///< called when a state is taken, so that the logs are on disk first; may be empty
  bool behind = false;  ///< written while the training goes on, which takes memory for one more state
  /// Stores each elsewhere, and returns why it is not; may be empty. Called in a thread of its own.
  std::function<std::string(const std::filesystem::path&, int64_t best_step)> store = {};
  std::string after = {};  ///< a command that runs after each then, in a shell; empty: none
  std::function<void(const std::string&)> warn = {};  ///< told when that fails, from any thread
  std::chrono::milliseconds patience =
      std::chrono::seconds(60);  ///< told when the training waits for so long
};

/// Writes checkpoints into a folder during training.
///
/// With `behind`, the state is copied between two steps, and a thread writes the copy. Another thread stores
/// it and runs the command then. The next checkpoint waits for both. An error of a thread is thrown by the
/// next call; whoever needs the checkpoint calls save().
class CheckpointObserver final : public CheckpointTimes {
 public:
  /// `followers`: the processes of the session, each with a CheckpointFollower; null: it is alone.
  CheckpointObserver(CheckpointWriting writing, const Session& session, CheckpointPolicy policy,
                     Processes* followers = nullptr);

  /// Writes a checkpoint for this state unless there is one already, and waits until it is written and the
  /// command has run for it. A command that still runs for an earlier one does not delay the writing.
  std::filesystem::path save(const TrainingState& state);
  /// Why the command after the newest checkpoint failed: a sentence; empty if it did not.
  const std::string& failure() const { return failure_; }
  /// Why it is not stored, in the same way.
  const std::string& not_stored() const { return not_stored_; }

  void step_done(const StepReport& report, const TrainingState& state) override;

 private:
  void due(const TrainingState& state) override;
  std::filesystem::path begin(const TrainingState& state);
  void finish_writing();
  void finish_command();
  bool acts_after() const { return !writing_.after.empty() || writing_.store; }
  void act_after();
  void remove_old(const std::filesystem::path& newest, int64_t best_step) const;

  CheckpointWriting writing_;
  const Session& session_;
  Processes* followers_;
  std::filesystem::path path_;  ///< of the newest checkpoint
  int64_t best_step_ = 0;       ///< when it was due
  std::filesystem::path done_;  ///< the newest one that was stored, and for which the command has succeeded
  std::string failure_;         ///< written by command_
  std::string not_stored_;      ///< and this
  std::future<void> thread_;    ///< writes a checkpoint
  std::future<std::filesystem::path> command_;  ///< stores one and runs the command; empty if that failed
};

/// What a process whose session has a part of the state does while rank 0 writes checkpoints.
class CheckpointFollower final : public CheckpointTimes {
 public:
  CheckpointFollower(const Session& session, CheckpointPolicy policy, Processes& processes)
      : CheckpointTimes(policy), session_(session), processes_(processes) {}

  /// Call when rank 0 calls CheckpointObserver::save().
  void follow();

 private:
  void due(const TrainingState& /*state*/) override { follow(); }

  const Session& session_;
  Processes& processes_;
};

}  // namespace telar
