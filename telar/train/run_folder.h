#pragma once

#include <filesystem>
#include <string>

#include "telar/train/job.h"

namespace telar {

/// The folder of one run, held by this process as long as the object lives:
///   job.yaml         the job as run, with all defaults
///   samples.json     what a sample looks like
///   metrics.jsonl    a line for each step and epoch
///   events.out.…     the same for TensorBoard
///   checkpoints/     telar/train/checkpoint.h
///   summary.json     at the end
class RunFolder {
 public:
  /// A folder for a new run of the job: output.folder, which must be empty or not there, or the first runs/NAME-N that
  /// is free. Throws Error (user) rather than touch another run.
  static RunFolder create(const Job& job);
  /// The folder of the run to go on with: output.folder, or the last runs/NAME-N. One that does not exist is created, so
  /// that a job which may have been stopped before it began can always be started with --resume.
  static RunFolder resume(const Job& job);

  ~RunFolder();
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path job() const { return path_ / "job.yaml"; }
  std::filesystem::path samples() const { return path_ / "samples.json"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }

 private:
  explicit RunFolder(std::filesystem::path path);
  std::filesystem::path path_;
  int lock_ = -1;
};

/// Where a trained model lies, given a run folder or a checkpoint. Throws Error (user) when it is neither, or has no checkpoint.
/// `best`: of a run, the checkpoint of the best epoch in place of the newest.
std::filesystem::path find_trained(const std::filesystem::path& run_or_checkpoint, bool best);

}  // namespace telar
