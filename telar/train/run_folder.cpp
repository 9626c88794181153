#include "telar/train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <utility>

#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
#include "telar/io/disk.h"
#include "telar/train/checkpoint.h"

namespace telar {

namespace fs = std::filesystem;

namespace {

const fs::path kRuns = "runs";

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

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw disk_error("create the folder", path, error.value());
}

/// Uses mkdir, which decides which run gets a number if two start at the same time.
fs::path claim_numbered(const std::string& name) {
  make_folder(kRuns);
  for (int64_t number = last_number(name) + 1;; ++number) {
    fs::path path = numbered(name, number);
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) throw disk_error("create the folder", path, errno);
  }
}

}  // namespace

RunFolder::RunFolder(fs::path path) : path_(std::move(path)) {
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) throw disk_error("open the folder", path_, errno);
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_);
    throw user_error("another process is training in {}; wait until it has ended", path_.string());
  }
  make_folder(checkpoints());
  remove_leftovers(path_);
  remove_leftovers(checkpoints());
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

RunFolder RunFolder::create(const Job& job) {
  if (job.output.folder.empty()) return RunFolder(claim_numbered(job.name));
  const fs::path path = job.output.folder;
  if (fs::exists(path) && !fs::is_directory(path)) throw user_error("{} is not a folder", path.string());
  if (fs::exists(path / "job.yaml")) {
    throw user_error("{} already contains a run; resume it (--resume) or choose another folder (--output)",
                     path.string());
  }
  if (fs::exists(path) && !fs::is_empty(path)) {
    throw user_error("the folder {} is not empty; a run needs its own folder (--output)", path.string());
  }
  make_folder(path);
  return RunFolder(path);
}

RunFolder RunFolder::resume(const Job& job) {
  if (job.output.folder.empty()) {
    const int64_t last = last_number(job.name);
    return last == 0 ? create(job) : RunFolder(numbered(job.name, last));
  }
  const fs::path path = job.output.folder;
  const bool ours = !fs::exists(path) || fs::exists(path / "job.yaml") || fs::exists(path / "checkpoints");
  return ours && fs::exists(path) ? RunFolder(path) : create(job);
}

fs::path find_trained(const fs::path& run_or_checkpoint, bool best) {
  if (fs::exists(run_or_checkpoint / "state.json")) return run_or_checkpoint;
  const fs::path checkpoints = run_or_checkpoint / "checkpoints";
  if (!fs::is_directory(checkpoints)) {
    throw user_error("{} is neither a run folder nor a checkpoint", run_or_checkpoint.string());
  }
  const auto newest = newest_checkpoint(checkpoints);
  if (!newest) throw user_error("the run in {} has no checkpoint yet", run_or_checkpoint.string());
  if (!best) return newest->path;
  fs::path path = checkpoint_path(checkpoints, newest->state.best_step);
  if (!newest->state.best || !fs::exists(path)) {
    throw user_error("the run in {} has no best checkpoint; that requires validation samples",
                     run_or_checkpoint.string());
  }
  return path;
}

}  // namespace telar
