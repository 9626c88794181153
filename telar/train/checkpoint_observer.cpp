#include "telar/train/checkpoint_observer.h"

#include <sys/wait.h>

#include <cerrno>
#include <chrono>

#include "telar/core/error.h"
#include "telar/train/child_process.h"

namespace telar {

namespace fs = std::filesystem;

void CheckpointTimes::epoch_done(const EpochReport& report, const TrainingState& state) {
  const bool by_epoch = policy_.every_epochs > 0 && (report.epoch + 1) % policy_.every_epochs == 0;
  const bool by_step = policy_.every_steps > 0 && state.step % policy_.every_steps == 0;
  if (by_epoch || by_step || (report.best && policy_.every_epochs > 0)) due(state);
}

CheckpointObserver::CheckpointObserver(CheckpointWriting writing, const Session& session,
                                       CheckpointPolicy policy, Processes* followers)
    : CheckpointTimes(policy), writing_(std::move(writing)), session_(session), followers_(followers) {}

fs::path CheckpointObserver::save(const TrainingState& state) {
  fs::path path = begin(state);
  finish();
  return path;
}

void CheckpointObserver::due(const TrainingState& state) {
  begin(state);
  if (!writing_.behind) finish();
}

void CheckpointObserver::step_done(const StepReport& /*report*/, const TrainingState& /*state*/) {
  if (thread_.valid() && thread_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) finish();
}

fs::path CheckpointObserver::begin(const TrainingState& state) {
  finish();
  fs::path path = checkpoint_path(writing_.folder, state.step);
  std::string written = is_checkpoint_of(path, state) ? "" : "written";
  if (followers_ != nullptr && session_.state_is_divided()) followers_->broadcast(written);
  if (written.empty()) return path;
  if (writing_.before) writing_.before();
  thread_ = std::async(std::launch::async, [this, path, state, tensors = checkpoint_tensors(session_)] {
    write(path, tensors, state);
  });
  return path;
}

void CheckpointObserver::finish() {
  if (thread_.valid()) thread_.get();
}

void CheckpointObserver::write(const fs::path& path, const std::vector<CheckpointFile>& tensors,
                               const TrainingState& state) {
  // The same step as that of another checkpoint, if a stop broke off the validation that ends its epoch.
  write_checkpoint(path, tensors, state, writing_.files, true);
  if (!writing_.after.empty()) run_after(path);
  // Newer ones are of steps that a loss took back: a resumed run begins at them, with the best epoch of then.
  if (list_checkpoints(writing_.folder).front().filename() == path.filename())
    remove_old_checkpoints(writing_.folder, policy().keep, state.best_step);
}

void CheckpointObserver::run_after(const fs::path& path) {
  const ChildStart command{
      .name = "output.after_checkpoint",
      .words = {"/bin/sh", "-c", writing_.after},
      .environment = {{"TELAR_CHECKPOINT", fs::absolute(path).string()},
                      {"TELAR_RUN", fs::absolute(writing_.folder).parent_path().string()}}};
  int status = 0;
  const int pid = start_child(command);
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  failure_ = status == 0 ? ""
                         : fmt::format("the command output.after_checkpoint {}, after {}",
                                       ending_text(status), path.filename().string());
  if (status != 0 && writing_.warn) writing_.warn(failure_);
}

void CheckpointFollower::follow() {
  if (!session_.state_is_divided()) return;
  std::string written;
  processes_.broadcast(written);
  if (!written.empty()) read_for_checkpoint(session_);
}

}  // namespace telar
