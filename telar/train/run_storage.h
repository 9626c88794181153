#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "telar/train/job.h"
#include "telar/train/run_folder.h"
#include "telar/train/storage_owner.h"
#include "telar/train/storage_program.h"
#include "telar/train/training_state.h"

namespace telar {

/// A run's checkpoints in a place that outlives its host (output.storage), which contains
///   run_id                  which run it is, as in the run's folder
///   owner-00000007-ID       which process stores it (StorageOwner)
///   step-00001234-ID/       a checkpoint (checkpoint/), and what else was in the run's folder (run/)
///   step-00001234-ID.json   the job, and the length and CRC-32 of each file in there
/// ID is another one each time, so nothing is overwritten. The .json comes last, and goes first: without it
/// there is no checkpoint, but what is left of an upload that was broken off.
class RunStorage {
 public:
  /// `warn` and `stop` may be called from any thread. `stop`: whether the run is being stopped: look() and
  /// bring() are broken off then, and store() has less time (StoragePatience).
  /// Throws Error (user) if output.storage is no place.
  RunStorage(const OutputJob& output, std::function<void(const std::string&)> warn,
             const std::function<bool()>& stop = {});

  /// Reads what is there. Throws Error (user), also if nothing can be read.
  void look();
  bool has_checkpoint() const { return !whole_.empty(); }
  /// Of the newest checkpoint that look() has found; there is one. Throws Error.
  TrainingState newest_state() const;
  /// Throws Error (user) if the newest checkpoint is of a job with another name, or that has other results;
  /// if a run is resumed (`again`), only what cannot change then.
  void require_job(const Job& job, bool again);
  /// Makes sure that it is the folder's run, that it can be written, and that no other process does. If the
  /// newest whole checkpoint is newer than those of the folder that are not damaged, copies it there, and
  /// says so; also the best one, if the folder has not got it. Throws Error, also if none can be read and the
  /// folder has none.
  void bring(const RunFolder& folder, const std::function<void(const std::string&)>& say);

  /// Instead, of a process that goes on with the run of another one, whose owner() is `former`.
  void succeed(const std::string& former, int rank) { owner_.succeed(former, rank); }
  /// StorageOwner::name, after bring() or succeed().
  const std::string& owner() const { return owner_.name(); }

  /// Stores a checkpoint of the run's folder, and the best one if it is not there; then removes older ones as
  /// the folder does (output.keep). Returns why one is not stored: a sentence, of which it has warned; empty:
  /// both are. Throws Error (user) if another process is the owner.
  std::string store(const std::filesystem::path& checkpoint, int64_t best_step);
  /// The same, without what look() has found.
  std::string store_missing(const std::filesystem::path& checkpoint, int64_t best_step);
  /// Throws Error (user) if it is known that another process stores the run here now.
  void require_owner() const { owner_.require(); }

 private:
  struct Stored {
    std::string name;  ///< "step-00001234-ID"
    int64_t step = 0;
  };

  std::optional<Job> newest_job();
  void skip_newest(const std::string& why);
  void require_own(const RunFolder& folder) const;
  void identify(const RunFolder& folder);
  bool has_parts(const std::string& name) const;
  void fetch(const std::string& name, const RunFolder& folder, bool newest) const;
  void bring_best(const RunFolder& folder) const;
  void upload(const std::filesystem::path& checkpoint, const std::string& name);
  std::string attempt(const std::filesystem::path& checkpoint, const std::function<void()>& store);
  std::string store_best(const std::filesystem::path& best);
  void remove_old(const std::vector<std::string>& names, const Stored& mine, int64_t best_step);
  static std::vector<Stored> whole_of(const std::vector<std::string>& names);

  /// As long as it lives, RunStorage's `stop` counts.
  class Beginning;

  std::atomic<bool> begins_ = false;
  StorageProgram program_;
  int64_t keep_;
  std::function<void(const std::string&)> warn_;
  StorageOwner owner_;
  std::string run_id_;                ///< empty: it has none yet
  std::vector<Stored> whole_;         ///< what was there when it was listed last, newest first
  std::set<std::string> unusable_;    ///< names of these that are damaged
  std::vector<std::string> skipped_;  ///< why some of these are not used
  int64_t failures_ = 0;              ///< in a row
};

}  // namespace telar
