#include "telar/train/resume.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "telar/core/error.h"
#include "telar/io/json_fields.h"
#include "telar/train/job_changes.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_stream.h"
#include "telar/train/job_workers.h"

namespace telar {

namespace {

namespace fs = std::filesystem;

void refuse_changes(const ResumeRequest& request, const std::vector<JobChange>& changes) {
  std::vector<std::string> texts;
  for (const JobChange& change : changes_of(changes, OnResume::refused))
    texts.push_back(fmt::format("{}, which cannot change, because {}", change.str(), change.because));
  if (texts.empty()) return;
  const std::string folder = request.folder.path().string();
  throw user_error(
      "{} is a run of another job: {}; start a new run (without --resume, another --output), or use the job of that run: telar train {} --resume",
      folder, fmt::join(texts, "; "), folder);
}

/// The differences between the data of the checkpoint and the present ones. Throws Error (user) unless there
/// are none or they are accepted.
std::vector<std::string> data_changes(const ResumeRequest& request, const DataRecord& before) {
  constexpr size_t kShown = 5;
  std::vector<std::string> all = data_differences(before, request.data);
  if (all.empty() || request.accept_changed_data) return all;
  const size_t more = all.size() - std::min(all.size(), kShown);
  all.resize(all.size() - more);
  throw user_error(
      "the data of {} are not those on which it was trained: {}{}; restore them, or continue with these (--accept-changed-data)",
      request.folder.path().string(), fmt::join(all, "; "),
      more == 0 ? "" : fmt::format("; and {} more", more));
}

/// The data of a checkpoint. Those of before data.json existed are taken to be the present ones.
DataRecord data_before(const fs::path& checkpoint, const DataRecord& now) {
  const fs::path file = checkpoint / "data.json";
  return fs::exists(file) ? data_record_from_json(read_checkpoint_text(file), file.string()) : now;
}

/// Whether the samples that an epoch has used are the first ones of its order still.
bool same_order(const Job& before, const Job& now, int64_t workers) {
  return before.data.shuffle == now.data.shuffle && before.data.mixing == now.data.mixing &&
         samples_together(before, workers) == samples_together(now, workers);
}

void begin_epoch_again(ResumePoint& point, const std::string& reason) {
  point.warnings.push_back(
      fmt::format("{}, so epoch {} begins again; its {} steps so far remain in the weights", reason,
                  point.state.epoch + 1, point.state.step_in_epoch));
  point.state.step_in_epoch = 0;
  point.state.position = {};
  point.state.epoch_samples = 0;
  point.state.epoch_sums.clear();
}

/// A stream's position holds for every batch, but the steps of an epoch are counted.
void adapt_stream(ResumePoint& point, const Job& before, const Job& now, int64_t steps) {
  const int64_t used = point.state.step_in_epoch * before.training.batch;
  const bool endless = now.training.epoch_steps > 0;
  if (!endless && used % now.training.batch != 0)
    throw user_error(
        "the epoch has used {} messages, which batches of {} do not divide; keep training.batch {}, or change it at the end of an epoch",
        used, now.training.batch, before.training.batch);
  if (!endless) point.state.step_in_epoch = used / now.training.batch;
  if (endless && point.state.step_in_epoch >= steps)
    throw user_error("the epoch has made {} steps, and training.epoch_steps is {} now; it must be larger",
                     point.state.step_in_epoch, steps);
}

int64_t steps_of(int64_t samples, int64_t batch) { return (samples + batch - 1) / batch; }

/// Finds the position in the epoch that corresponds to that of the checkpoint.
void adapt_position(ResumePoint& point, const Job& before, const ResumeRequest& request, bool same_data) {
  if (point.state.step_in_epoch == 0) return;
  if (trains_on_stream(request.job.data))
    return adapt_stream(point, before, request.job, request.job.training.epoch_steps);
  const int64_t batch = request.job.training.batch;
  const int64_t used = std::min(request.data.train, point.state.step_in_epoch * before.training.batch);
  if (!same_data) {
    begin_epoch_again(point, "the data have changed");
  } else if (request.job.data.shuffle && point.state.order_version != kOrderVersion) {
    begin_epoch_again(point, "the checkpoint is of a version of telar that shuffled in another order");
  } else if (!same_order(before, request.job, request.workers)) {
    begin_epoch_again(point, "the order of the samples has changed");
  } else if (used == request.data.train) {  // without its validation
    point.state.step_in_epoch = steps_of(used, batch);
  } else if (used % batch != 0) {
    begin_epoch_again(
        point, fmt::format("the epoch has used {} samples, which batches of {} do not divide", used, batch));
  } else if (batch != before.training.batch) {
    point.state.step_in_epoch = used / batch;
    point.state.position = {};
  }
}

}  // namespace

std::optional<ResumePoint> resume_point(const ResumeRequest& request) {
  std::optional<FoundCheckpoint> found = newest_checkpoint(request.folder.checkpoints());
  const fs::path job_file = found ? found->path / "job.yaml" : request.folder.job();
  if (!found && !fs::exists(job_file)) return std::nullopt;
  const Job before = read_job(job_file);
  const std::vector<JobChange> changes = job_changes(before, request.job);
  refuse_changes(request, changes);
  if (!found) return std::nullopt;
  ResumePoint point{found->path, found->state, std::move(found->warnings), {}};
  const DataRecord data = data_before(point.checkpoint, request.data);
  const bool endless = before.training.epoch_steps > 0;
  const int64_t steps = endless ? before.training.epoch_steps : steps_of(data.train, before.training.batch);
  check_position(point.state, {steps, request.metrics}, (point.checkpoint / "state.json").string());
  for (const JobChange& change : changes_of(changes, OnResume::recorded))
    point.changes.push_back(change.str());
  const std::vector<std::string> other_data = data_changes(request, data);
  point.changes.insert(point.changes.end(), other_data.begin(), other_data.end());
  adapt_position(point, before, request, other_data.empty());
  point.state.order_version = kOrderVersion;
  if (before.schedule.name != request.job.schedule.name) point.state.plateau.reset();
  const int64_t patience = request.job.training.early_stopping_patience;
  point.state.stopped_early = patience > 0 && point.state.epochs_since_best >= patience;
  return point;
}

bool is_finished(const RunFolder& folder, const Job& job, const TrainingState& state) {
  if (state.epoch < job.training.epochs && !state.stopped_early) return false;
  std::ifstream file(folder.summary(), std::ios::binary);
  if (!file) return false;
  try {
    const JsonFields summary({std::istreambuf_iterator<char>(file), {}}, folder.summary().string());
    summary.choice("outcome", {"finished", "stopped early"});
    return summary.integer("steps", 0, std::numeric_limits<int64_t>::max()) == state.step;
  } catch (const Error&) {
    return false;  // a summary that is damaged, or of a run that was stopped, is written again
  }
}

}  // namespace telar
