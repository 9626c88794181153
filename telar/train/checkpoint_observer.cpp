#include "telar/train/checkpoint_observer.h"

#include <chrono>
#include <utility>
#include <vector>

#include "telar/core/error.h"
#include "telar/observe/child_process.h"

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
  finish_writing();
  if (acts_after() && !command_.valid() && done_ != path) act_after();  // not by an earlier process
  finish_command();
  return path;
}

void CheckpointObserver::due(const TrainingState& state) {
  finish_writing();
  finish_command();
  begin(state);
  if (!writing_.behind) finish_writing();
}

void CheckpointObserver::step_done(const StepReport& /*report*/, const TrainingState& /*state*/) {
  if (thread_.valid() && thread_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    finish_writing();
}

fs::path CheckpointObserver::begin(const TrainingState& state) {
  finish_writing();
  path_ = checkpoint_path(writing_.folder, state.step);
  best_step_ = state.best_step;
  std::string written = is_checkpoint_of(path_, state) ? "" : "written";
  if (followers_ != nullptr && session_.state_is_divided()) followers_->broadcast(written);
  if (written.empty()) return path_;
  if (writing_.before) writing_.before();
  thread_ =
      std::async(std::launch::async, [this, path = path_, state, tensors = checkpoint_tensors(session_)] {
        // It replaces one of the same step, if a stop broke off the validation that ends its epoch.
        write_checkpoint(path, tensors, state, writing_.files, true);
        if (!acts_after()) remove_old(path, state.best_step);
      });
  return path_;
}

void CheckpointObserver::finish_writing() {
  if (!thread_.valid()) return;
  std::exchange(thread_, {}).get();
  if (acts_after()) act_after();
}

void CheckpointObserver::finish_command() {
  if (!command_.valid()) return;
  std::chrono::milliseconds waited(0);
  for (auto patience = writing_.patience; command_.wait_for(patience) != std::future_status::ready;) {
    waited += patience;
    if (writing_.warn)
      writing_.warn(
          fmt::format("the next checkpoint has waited {:g} s for the end of {}",
                      std::chrono::duration<double>(waited).count(),
                      writing_.after.empty() ? "the storing of the last one" : "output.after_checkpoint"));
    patience = waited;
  }
  if (const fs::path done = command_.get(); !done.empty()) done_ = done;
}

// Newer ones are of steps that a loss took back: a resumed run begins at them, with the best epoch of then.
void CheckpointObserver::remove_old(const fs::path& newest, int64_t best_step) const {
  const std::vector<fs::path> all = list_checkpoints(writing_.folder);
  if (!all.empty() && all.front().filename() == newest.filename())
    remove_old_checkpoints(writing_.folder, policy().keep, best_step);
}

/// In the background, for the newest checkpoint, when it has ended for the one before.
void CheckpointObserver::act_after() {
  finish_command();
  const ChildStart command{
      .name = "output.after_checkpoint",
      .words = {"/bin/sh", "-c", writing_.after},
      .environment = {{"TELAR_CHECKPOINT", fs::absolute(path_).string()},
                      {"TELAR_RUN", fs::absolute(writing_.folder).parent_path().string()},
                      {"TELAR_TOKEN", ""}}};
  command_ = std::async(std::launch::async, [this, command, path = path_, best_step = best_step_] {
    if (writing_.store) not_stored_ = writing_.store(path, best_step);
    const int status = writing_.after.empty() ? 0 : run_child(command);
    failure_ = status == 0 ? ""
                           : fmt::format("the command output.after_checkpoint {}, after {}",
                                         ending_text(status), path.filename().string());
    if (status != 0 && writing_.warn) writing_.warn(failure_);
    remove_old(path, best_step);
    return status == 0 && not_stored_.empty() ? path : fs::path();
  });
}

void CheckpointFollower::follow() {
  if (!session_.state_is_divided()) return;
  std::string written;
  processes_.broadcast(written);
  if (!written.empty()) read_for_checkpoint(session_);
}

}  // namespace telar
