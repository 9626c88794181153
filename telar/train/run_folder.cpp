#include "telar/train/run_folder.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "telar/comm/store/random_id.h"
#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
#include "telar/io/disk.h"
#include "telar/observe/process.h"
#include "telar/train/checkpoint.h"

namespace telar {

namespace fs = std::filesystem;

namespace {

const fs::path kRuns = "runs";
const fs::path kCheckpoints = "checkpoints";
const fs::path kLogs = "logs";
const fs::path kServers = "servers";
const fs::path kByMessages = "by_messages";

fs::path numbered(const std::string& name, int64_t number) {
  return kRuns / fmt::format("{}-{}", name, number);
}

/// N of the last runs/NAME-N; 0 if there is none.
int64_t last_number(const std::string& name) {
  int64_t last = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(kRuns, error)) {
    const std::string folder = entry.path().filename().string();
    if (!folder.starts_with(name + "-")) continue;
    int64_t number = 0;
    const char* end = folder.data() + folder.size();
    const auto [stop, code] = std::from_chars(folder.data() + name.size() + 1, end, number);
    if (code == std::errc() && stop == end) last = std::max(last, number);
  }
  return last;
}

/// Whether a folder contains nothing but what parameter servers keep there.
bool is_of_servers(const fs::path& folder) {
  const auto all = [](const fs::path& of, const auto& holds) {
    return fs::is_directory(of) && std::all_of(fs::directory_iterator(of), fs::directory_iterator(), holds);
  };
  return all(folder, [&](const fs::directory_entry& server) {
    const std::string number = server.path().filename().string();
    return number.find_first_not_of("0123456789") == std::string::npos &&
           all(server.path(), [](const fs::directory_entry& file) {
             const std::string name = file.path().filename().string();
             return name == "address" || name.starts_with("store.");
           });
  });
}

/// True if a folder contains at most the logs of a run that failed to start, and what its servers have there.
bool is_free(const fs::path& folder) {
  return std::all_of(fs::directory_iterator(folder), fs::directory_iterator(), [](const auto& entry) {
    return entry.path().filename() == kLogs ||
           (entry.path().filename() == kServers && is_of_servers(entry.path()));
  });
}

/// Throws Error (user) unless a new run can have this folder.
void require_free(const fs::path& path) {
  require_local(path);
  require_no_part_of_run(path);
  if (fs::exists(path) && !fs::is_directory(path)) throw user_error("{} is not a folder", path.string());
  if (fs::exists(path / "job.yaml")) {
    throw user_error("{} already contains a run; resume it (--resume) or choose another folder (--output)",
                     path.string());
  }
  if (fs::exists(path) && !is_free(path))
    throw user_error("the folder {} is not empty; a run needs its own folder (--output)", path.string());
}

/// Whether there is nothing, or a run that has begun.
bool is_resumable(const fs::path& path) {
  return !fs::exists(path) || fs::exists(path / "job.yaml") || fs::exists(path / kCheckpoints);
}

/// In a run folder telar writes only what it has made itself. The run folder may be a link; what is below may
/// not, because that would write to another place.
void refuse_links(const fs::path& run) {
  for (const char* name : {"job.yaml", "samples.json", "data.json", "tokenizer.json", "metrics.jsonl",
                           "offsets.jsonl", "summary.json", "trace.json", "run_id", "leader",
                           "joined_servers", "checkpoints", "logs", "servers", "by_messages"}) {
    refuse_link(run / name);
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run / kCheckpoints, error)) refuse_link(entry.path());
  for (const auto& entry : fs::directory_iterator(run / kLogs, error)) refuse_link(entry.path());
}

/// A folder of this kind is part of a run.
enum class RunPart : uint8_t { none, checkpoint, checkpoints };

RunPart part_at(const fs::path& path) {
  const bool among_checkpoints = path.parent_path().filename() == kCheckpoints;
  if (fs::is_regular_file(path / "state.json") || (among_checkpoints && is_checkpoint_name(path)))
    return RunPart::checkpoint;
  const bool of_run = path.filename() == kCheckpoints &&
                      (fs::exists(path.parent_path() / "job.yaml") || !list_checkpoints(path).empty());
  return of_run ? RunPart::checkpoints : RunPart::none;
}

/// The folder of the run, absolute only if `path` is.
std::string run_of(const fs::path& part, RunPart kind, const fs::path& path) {
  fs::path run = kind == RunPart::checkpoints ? part.parent_path() : part.parent_path().parent_path();
  if (kind == RunPart::checkpoint && part.parent_path().filename() != kCheckpoints)
    return "the folder that contains its job.yaml and checkpoints/";
  return path.is_absolute() ? run.string() : fs::proximate(run).string();
}

/// Of the folder of a run; none: another process trains there.
std::optional<FolderLock> lock_of(const fs::path& path) {
  refuse_links(path);
  return FolderLock::take(path);
}

FolderLock require_lock(const fs::path& path) {
  std::optional<FolderLock> lock = lock_of(path);
  if (lock) return std::move(*lock);
  throw user_error("another process is training in {}; wait until it has ended", path.string());
}

/// Whether a process of this host has opened the folder, as its writer has for its lock.
bool has_opened(const std::string& process, const fs::path& folder) {
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(fs::path("/proc") / process / "fd", ignored))
    if (fs::equivalent(file.path(), folder, ignored)) return true;
  return false;
}

}  // namespace

/// Uses mkdir, which decides which run gets a number if two start at the same time.
fs::path claim_run_folder(const std::string& name) {
  make_folder(kRuns);
  for (int64_t number = last_number(name) + 1;; ++number) {
    fs::path path = numbered(name, number);
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) throw disk_error("create the folder", path, errno);
  }
}

std::string run_id_of(const fs::path& folder) {
  const fs::path file = folder / "run_id";
  std::ifstream existing(file);
  std::string id;
  if (existing >> id) return id;
  id = fmt::format("{:016x}{:016x}", random_id(), random_id());
  write_file(file, id + "\n", Links::refuse);
  return id;
}

fs::path fold_folder(const fs::path& folds, int64_t fold) { return folds / fmt::format("fold-{}", fold); }

void require_no_part_of_run(const fs::path& path) {
  fs::path part = fs::weakly_canonical(path);
  if (!part.has_filename()) part = part.parent_path();
  for (; part.has_relative_path(); part = part.parent_path()) {
    const RunPart kind = part_at(part);
    if (kind == RunPart::none) continue;
    throw user_error("{} is {}, not the folder of a run; give the run's folder: {}", path.string(),
                     kind == RunPart::checkpoints         ? "where a run keeps its checkpoints"
                     : part == fs::weakly_canonical(path) ? "a checkpoint"
                                                          : "in a checkpoint",
                     run_of(part, kind, path));
  }
}

RunFolder::RunFolder(const fs::path& path, Origin origin) : RunFolder(path, origin, require_lock(path)) {}

RunFolder::RunFolder(fs::path path, Origin origin, FolderLock lock)
    : path_(std::move(path)), origin_(origin), lock_(std::move(lock)) {
  make_folder(checkpoints());
  remove_leftovers(path_);
  remove_leftovers(checkpoints());
}

RunFolder RunFolder::create(const Job& job) {
  if (job.output.folder.empty()) return {claim_run_folder(job.name), Origin::created};
  const fs::path path = job.output.folder;
  require_free(path);
  const bool existed = fs::exists(path);
  make_folder(path);
  return {path, existed ? Origin::was_empty : Origin::created};
}

void RunFolder::require_usable(const fs::path& path, bool resume) {
  if (resume) require_no_part_of_run(path);
  if (!resume || !is_resumable(path)) require_free(path);
  if (fs::exists(path)) require_lock(path);
}

std::string RunFolder::make_known() const {
  std::string known = fmt::format("{:016x}", random_id());
  write_file(leader(), fmt::format("{} {}\n", known, ::getpid()), Links::refuse);
  return known;
}

void RunFolder::make_unknown() const {
  std::error_code ignored;
  fs::remove(leader(), ignored);
}

/// The lock is what only one process can have. The kernel takes it from a process that ends.
RunFolder RunFolder::take_over(const fs::path& path, const std::string& known,
                               const std::function<bool()>& silent) {
  constexpr auto kGoes = std::chrono::seconds(25);
  const fs::path file = path / "leader";
  const auto end = std::chrono::steady_clock::now() + kGoes;
  while (std::chrono::steady_clock::now() < end) {
    std::optional<FolderLock> lock = lock_of(path);
    std::string id;
    std::string process;
    std::ifstream(file) >> id >> process;
    if (id != known)
      throw run_error("{} is not the folder of the run on {}, or the run has gone on without this process",
                      path.string(), host_name());
    if (lock) {
      write_file(file, fmt::format("{} {}\n", known, ::getpid()), Links::refuse);
      return {path, Origin::existed, std::move(*lock)};
    }
    if (silent() && has_opened(process, path)) ::kill(std::stoi(process), SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  throw run_error("a process that cannot be ended from {} has {} locked: it may write there still",
                  host_name(), path.string());
}

std::optional<fs::path> RunFolder::find(const Job& job) {
  const int64_t last = job.output.folder.empty() ? last_number(job.name) : 0;
  if (job.output.folder.empty() && last == 0) return std::nullopt;
  fs::path path = job.output.folder.empty() ? numbered(job.name, last) : fs::path(job.output.folder);
  return fs::exists(path / "job.yaml") ? std::optional(std::move(path)) : std::nullopt;
}

RunFolder RunFolder::resume(const Job& job) {
  if (job.output.folder.empty()) {
    const int64_t last = last_number(job.name);
    if (last > 0 && fs::exists(fold_folder(numbered(job.name, last), 1)))
      throw user_error(
          "{0} has a run for each fold; resume all with --fold all --output {0}, or one by its folder",
          numbered(job.name, last).string());
    return last == 0 ? create(job) : RunFolder(numbered(job.name, last), Origin::existed);
  }
  const fs::path path = job.output.folder;
  require_no_part_of_run(path);
  return is_resumable(path) && fs::exists(path) ? RunFolder(path, Origin::existed) : create(job);
}

fs::path RunFolder::by_messages() const {
  make_folder(path_ / kByMessages);
  return path_ / kByMessages;
}

void RunFolder::discard_if_new() {
  if (origin_ == Origin::existed) return;
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(path_, error)) entries.push_back(entry.path());
  for (const fs::path& entry : entries) {
    if (entry.filename() != kLogs) fs::remove_all(entry, error);
  }
  if (origin_ == Origin::created) fs::remove(path_, error);  // fails if there are logs
}

FoundCheckpoint find_trained(const fs::path& run_or_checkpoint, bool best) {
  if (fs::exists(run_or_checkpoint / "state.json"))
    return {run_or_checkpoint, verify_checkpoint(run_or_checkpoint), {}};
  const fs::path checkpoints = run_or_checkpoint / kCheckpoints;
  if (!fs::is_directory(checkpoints)) {
    require_no_part_of_run(run_or_checkpoint);
    throw user_error("{} is neither a run folder nor a checkpoint", run_or_checkpoint.string());
  }
  std::optional<FoundCheckpoint> found = newest_checkpoint(checkpoints);
  if (!found)
    throw user_error(
        "the run in {} has no checkpoint yet; if it was stopped before the first one, telar train {} --resume trains it",
        run_or_checkpoint.string(), run_or_checkpoint.string());
  if (!best) return *found;
  found->path = checkpoint_path(checkpoints, found->state.best_step);
  if (!found->state.best || !fs::exists(found->path)) {
    throw user_error(
        "the run in {} has no best checkpoint; that requires validation samples, and an epoch whose validation metric is finite",
        run_or_checkpoint.string());
  }
  found->state = verify_checkpoint(found->path);
  return *found;
}

}  // namespace telar
