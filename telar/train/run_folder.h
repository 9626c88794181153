#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "telar/io/folder_lock.h"
#include "telar/train/checkpoint.h"
#include "telar/train/job.h"

namespace telar {

/// The folder of one run. It may be a symbolic link, but what telar writes below it may not (Error, user).
/// This process holds a lock on it for the lifetime of the object. It contains
///   job.yaml         the job as run, with all defaults
///   samples.json     the description of a sample
///   data.json        the number of samples, and what identifies their files (telar/train/data_record.h)
///   tokenizer.json   the data's tokenizer, if it has one
///   columns.txt      what was decided of a table's columns, if some are no numbers
///   metrics.jsonl    a line for each step and epoch
///   offsets.jsonl    of a stream, with data.audit: the offsets that each step has used
///   events.out.…     the same for TensorBoard
///   by_messages/     of a stream: the same, with the number of messages instead of the step
///   checkpoints/     telar/train/checkpoint.h
///   summary.json     written at the end
///   run_id           which run it is, with parameter servers or output.storage
///   leader           with strategy.min_workers: which run it is, and the process that writes it
///   joined_servers   with copies: the addresses of parameter servers that have joined
class RunFolder {
 public:
  /// The folder for a new run: output.folder, which must be empty (except logs/ of a run that failed to
  /// start) or not exist, or the first free runs/NAME-N. Throws Error (user) if the folder belongs to another
  /// run.
  static RunFolder create(const Job& job);
  /// The folder of the run to resume: output.folder, or the last runs/NAME-N. It is created if it does not
  /// exist, so --resume also works for a job that may have been stopped before it began. Throws Error (user)
  /// for the folder of several folds.
  static RunFolder resume(const Job& job);

  /// Throws Error (user) as create() or resume() would, without making anything, and if another process
  /// trains there. A folder that is not there can be one on another host.
  static void require_usable(const std::filesystem::path& path, bool resume);

  /// With which other processes know that a folder, which they see at the same path, is that of their run,
  /// and that it has not gone on without them: another text at each call. Notes that this process writes it.
  std::string make_known() const;
  /// Nobody takes it over from here on.
  void make_unknown() const;
  /// The folder of a run whose process has gone, in another one, which has been told its `path` and what
  /// make_known() has returned. If that process is still there, is on this host, and `silent` says that it
  /// does not answer, it is killed. Throws Error (run) if the folder is another one, or locked for 25 s more:
  /// silence may be found out later than that its connection has ended.
  static RunFolder take_over(const std::filesystem::path& path, const std::string& known,
                             const std::function<bool()>& silent);

  /// The folder of that run; none if there is no such run yet. Takes no lock.
  static std::optional<std::filesystem::path> find(const Job& job);

  /// If this object has created the run: removes all except its logs, so that the same command can start
  /// again.
  void discard_if_new();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path job() const { return path_ / "job.yaml"; }
  std::filesystem::path samples() const { return path_ / "samples.json"; }
  std::filesystem::path data() const { return path_ / "data.json"; }
  std::filesystem::path columns() const { return path_ / "columns.txt"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path offsets() const { return path_ / "offsets.jsonl"; }
  /// Creates it if it does not exist.
  std::filesystem::path by_messages() const;
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }

 private:
  enum class Origin : uint8_t { existed, was_empty, created };
  RunFolder(std::filesystem::path path, Origin origin, FolderLock lock);
  RunFolder(const std::filesystem::path& path, Origin origin);
  std::filesystem::path leader() const { return path_ / "leader"; }
  std::filesystem::path path_;
  Origin origin_;
  FolderLock lock_;
};

/// Makes the folder of a new run, the first free runs/NAME-N.
std::filesystem::path claim_run_folder(const std::string& name);

/// The id of a run, in its folder, so that servers and storages recognise a resumed run. Makes it if there is
/// none.
std::string run_id_of(const std::filesystem::path& folder);

/// The folder of the run of one fold, in that of all folds.
std::filesystem::path fold_folder(const std::filesystem::path& folds, int64_t fold);

/// Throws Error (user) that names the run's folder if the path is only a part of one: a checkpoint, the
/// folder of the checkpoints, or a path below them. To train there would ruin them.
void require_no_part_of_run(const std::filesystem::path& path);

/// The checkpoint of a trained model, given a run folder or a checkpoint. `best`: from a run, the checkpoint
/// of the best epoch instead of the newest intact one. The warnings name the newer checkpoints that are
/// damaged. Throws Error (user) if the path is neither, or has no intact checkpoint.
FoundCheckpoint find_trained(const std::filesystem::path& run_or_checkpoint, bool best);

}  // namespace telar
