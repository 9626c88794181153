#pragma once

#include <optional>
#include <string>
#include <vector>

#include "telar/train/checkpoint.h"
#include "telar/train/data_record.h"
#include "telar/train/job.h"
#include "telar/train/run_folder.h"

namespace telar {

/// What a run finds when it is resumed.
struct ResumeRequest {
  const RunFolder& folder;
  const Job& job;  ///< settled (settle_workers())
  const DataRecord& data;
  size_t metrics = 0;   ///< of a step
  int64_t workers = 1;  ///< job_workers()
  bool accept_changed_data = false;
};

/// Where a resumed run continues.
struct ResumePoint {
  std::filesystem::path checkpoint;
  TrainingState state;                ///< of the checkpoint, adapted to the job
  std::vector<std::string> warnings;  ///< checkpoints that were skipped, an epoch that begins again
  std::vector<std::string> changes;   ///< "training.batch: 32 → 64"
};

/// The point where the run in a folder continues with this job and data. Empty if it has no checkpoint yet.
/// The job may differ from that of the checkpoint in everything that does not contradict its weights, its
/// optimizer's state, or its division of the samples (JobKey::on_resume). Within an epoch:
///
/// - another batch continues at the same sample;
/// - if the batch does not divide the samples that the epoch has used, or the data or the order of the
///   samples changed (also from one version of telar to another), the epoch begins again.
///
/// Throws Error (user) for other changes, and for changed data unless they are accepted.
std::optional<ResumePoint> resume_point(const ResumeRequest& request);

/// True if nothing is left to do after this state: the training has ended, and the run's summary says so.
bool is_finished(const RunFolder& folder, const Job& job, const TrainingState& state);

}  // namespace telar
