#include "telar/train/storage_program.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "telar/core/error.h"
#include "telar/observe/child_process.h"

namespace telar {

namespace fs = std::filesystem;

// Of a folder of this machine, the one above must be there: an absent one may be a disk that is not mounted.
// A file is written through to the disk by parts, so that one sees how a slow disk goes on: `sync` at the end
// says nothing for as long as it takes, and `sync -f` waits for what others have written, too.
// rclone ends with 3 if a folder is not there, which of object stores also an empty one is; aws with 1.
const StorageProgram::Scripts StorageProgram::kRclone = {
    .program = "rclone",
    .list = R"(rclone lsf "$1" || [ $? = 3 ])",
    .read = R"(rclone cat "$1")",
    .write = R"(printf %s "$2" | rclone rcat "$1")",
    .put = R"(rclone copy "$2" "$1")",
    .get = R"(rclone copy "$1" "$2")",
    .remove_file = R"(rclone deletefile "$1")",
    .remove_folder = R"(rclone purge "$1")",
};
const StorageProgram::Scripts StorageProgram::kAws = {
    .program = "aws",
    .list = R"(aws s3 ls --cli-connect-timeout 10 "$1/" || [ $? = 1 ])",
    .read = R"(aws s3 cp --only-show-errors "$1" -)",
    .write = R"(printf %s "$2" | aws s3 cp --only-show-errors - "$1")",
    .put = R"(aws s3 cp --only-show-errors --recursive "$2" "$1/")",
    .get = R"(aws s3 cp --only-show-errors --recursive "$1/" "$2")",
    .remove_file = R"(aws s3 rm --only-show-errors "$1")",
    .remove_folder = R"(aws s3 rm --only-show-errors --recursive "$1/")",
};
const StorageProgram::Scripts StorageProgram::kCp = {
    .program = "cp",
    .list =
        R"(if [ -e "$1" ]; then ls -p "$1"; elif [ ! -d "${1%/*}/" ]; then echo "there is no folder ${1%/*}" >&2; false; fi)",
    .read = R"(cat "$1")",
    .write = R"(d="${1%/*}"; { [ -d "$d" ] || mkdir "$d"; } && printf %s "$2" >"$1.tmp" && mv "$1.tmp" "$1")",
    .put = R"({ [ -d "$1" ] || { mkdir "$1" && sync "${1%/*}/"; }; } && cd "$2" &&
find . -type d -exec sh -c 'for d; do mkdir -p "$0/$d" || exit 1; done' "$1" {} + &&
find . -type f -exec sh -c 'for f; do dd "if=$f" "of=$0/$f" bs=64M oflag=dsync status=none || exit 1; done' "$1" {} + &&
find . -type d -exec sh -c 'for d; do sync "$0/$d" || exit 1; done' "$1" {} +)",
    .get = R"(cp -R "$1/." "$2")",
    .remove_file = R"(rm "$1")",
    .remove_folder = R"(rm -r "$1")",
};

namespace {

constexpr std::string_view kS3 = "s3://";
constexpr std::string_view kFile = "file://";

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody changes it
  return value == nullptr ? "" : value;
}

bool is_on_path(const std::string& program) {
  std::istringstream folders(variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

constexpr off_t kMostErrors = 64 << 10;
constexpr off_t kMostOutput = 64 << 20;
constexpr std::chrono::seconds kMinute(60);
constexpr std::chrono::milliseconds kLook(1000);

// $0 is a script, and the standard input a pipe that ends with telar, also if it is killed: then the script
// is killed with all that it has started.
constexpr const char* kEndsWithTelar = R"(exec 3<&0 </dev/null
{ read -r _ <&3; kill -9 0; } &
(exec 3<&-; eval "$0")
code=$?
{ kill -9 $!; wait $!; } 2>/dev/null
exit $code)";

/// A pipe that ends when this process does.
class Lifeline {
 public:
  Lifeline() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0)
      throw run_error("no pipe could be made: {}",
                      std::strerror(errno));  // NOLINT(concurrency-mt-unsafe): glibc's is safe
  }
  ~Lifeline() {
    for (const int end : ends_) ::close(end);
  }
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;
  int read_end() const { return ends_[0]; }

 private:
  std::array<int, 2> ends_{};
};

/// A file in memory, to which a child writes.
class Output {
 public:
  Output() : file_(::memfd_create("output", MFD_CLOEXEC)) {
    if (file_ < 0)
      throw run_error("no file in memory could be made: {}",
                      std::strerror(errno));  // NOLINT(concurrency-mt-unsafe): glibc's is safe
  }
  ~Output() { ::close(file_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  int file() const { return file_; }
  off_t size() const {
    struct stat status {};
    ::fstat(file_, &status);
    return status.st_size;
  }
  /// Gives the memory of all but the end back. It stays a part of the size.
  void keep_end() const {
    if (size() > 2 * kMostErrors)
      ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size() - kMostErrors);
  }
  std::string end() const { return text(std::max<off_t>(0, size() - kMostErrors)); }
  std::string text(off_t from = 0) const {
    std::string text;
    std::array<char, 4096> bytes{};
    for (ssize_t count = 0;
         (count = ::pread(file_, bytes.data(), bytes.size(), from + static_cast<off_t>(text.size()))) > 0;)
      text.append(bytes.data(), static_cast<size_t>(count));
    return text;
  }

 private:
  int file_;
};

/// What the processes of a group have done.
struct Work {
  std::string copied;  ///< how much they have read and written: another text if it has changed
  double seconds = 0;  ///< of processors
};

Work work_of(int group) {
  Work all;
  const auto ticks_of_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    std::string line;
    std::getline(std::ifstream(entry.path() / "stat"), line);
    std::istringstream after_name(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    std::string state;
    int parent = 0;
    int of_group = 0;
    after_name >> state >> parent >> of_group;
    if (of_group != group) continue;
    for (int field = 6; field < 14; ++field) after_name >> state;
    for (double own = 0, field = 14; field < 18 && after_name >> own; ++field)
      all.seconds += own / ticks_of_second;
    std::ifstream counts(entry.path() / "io");
    for (std::string name, count; counts >> name >> count;)
      if (name.find("sysc") == std::string::npos) all.copied += count + " ";
  }
  return all;
}

/// Whether a group has copied nothing for some time, nor computed: the timers of a program that only waits
/// take less than a hundredth of a processor.
class Stalls {
 public:
  bool operator()(int group, std::chrono::milliseconds patience) {
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ < std::min(kLook, patience / 4)) return false;
    looked_ = now;
    Work work = work_of(group);
    const double computed = work.seconds - work_.seconds;
    if (work.copied != work_.copied ||
        computed > 0.02 * std::chrono::duration<double>(now - since_).count()) {
      work_ = std::move(work);
      since_ = now;
    }
    return now - since_ > patience;
  }

 private:
  std::chrono::steady_clock::time_point looked_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  Work work_;
};

/// The last two lines of a program that has failed: it says last why.
std::string last_lines_of(const std::string& text) {
  std::istringstream lines(text);
  std::array<std::string, 2> last;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) last = {last[1], line};
  return last[0] + (last[0].empty() ? "" : ", ") + last[1];
}

}  // namespace

StorageProgram::StorageProgram(std::string place, std::function<void(const std::string&)> warn,
                               StoragePatience patience, std::function<bool()> stop,
                               std::function<bool()> ends)
    : place_(std::move(place)),
      root_(place_),
      scripts_(&kCp),
      warn_(std::move(warn)),
      patience_(patience),
      stop_(std::move(stop)),
      ends_(std::move(ends)) {
  if (root_.starts_with('-'))
    throw user_error("output.storage is {}, which is an option, not a place", place_);
  while (root_.ends_with('/')) root_.pop_back();
  const size_t colon = root_.find(':');
  if (root_.starts_with(kFile)) root_ = root_.substr(kFile.size());
  if (root_.starts_with('/')) return;
  const bool s3 = root_.starts_with(kS3);
  if (!s3 && (colon == 0 || colon == std::string::npos || place_.substr(colon).starts_with("://")))
    throw user_error(
        "output.storage is '{}'; it must be s3://BUCKET/FOLDER, REMOTE:FOLDER with a remote of rclone, or the absolute path of a folder",
        place_);
  scripts_ = s3 && !is_on_path("rclone") && is_on_path("aws") ? &kAws : &kRclone;
  if (scripts_ == &kRclone && !is_on_path("rclone"))
    missing_ = fmt::format(
        "{} needs the program rclone{}, which is not on the PATH of this host; install it "
        "(apt-get install rclone), or name a folder that outlives the host",
        place_, s3 ? " or aws" : "");
  // One that does not answer is to be reported before an hour has passed.
  default_to("RCLONE_CONTIMEOUT", "10s");
  default_to("RCLONE_TIMEOUT", "60s");
  default_to("RCLONE_RETRIES", "1");
  default_to("RCLONE_LOW_LEVEL_RETRIES", "3");
  default_to("RCLONE_LOG_LEVEL", "ERROR");
  default_to("AWS_MAX_ATTEMPTS", "3");
  if (!s3 || scripts_ == &kAws) return;
  // So that both programs use the same variables.
  root_ = ":s3:" + root_.substr(kS3.size());
  std::string endpoint = variable("AWS_ENDPOINT_URL_S3");
  if (endpoint.empty()) endpoint = variable("AWS_ENDPOINT_URL");
  std::string region = variable("AWS_REGION");
  if (region.empty()) region = variable("AWS_DEFAULT_REGION");
  if (const std::string bundle = variable("AWS_CA_BUNDLE"); !bundle.empty()) {
    environment_["AWS_CA_BUNDLE"] = "";  // which rclone 1.60 cannot read
    default_to("RCLONE_CA_CERT", bundle);
  }
  default_to("RCLONE_S3_ENV_AUTH", "true");
  default_to("RCLONE_S3_NO_CHECK_BUCKET", "true");
  default_to("RCLONE_S3_PROVIDER", endpoint.empty() ? "AWS" : "Other");
  if (!endpoint.empty()) default_to("RCLONE_S3_ENDPOINT", endpoint);
  if (!region.empty()) default_to("RCLONE_S3_REGION", region);
}

void StorageProgram::default_to(const char* name, const std::string& value) {
  if (variable(name).empty()) environment_[name] = value;
}

void StorageProgram::require() const {
  if (!missing_.empty()) throw user_error("{}", missing_);
}

std::vector<std::string> StorageProgram::list(const std::string& folder) const {
  std::istringstream lines(run("cannot list it", scripts_->list, path_of(folder)));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) names.push_back(line.substr(line.rfind(' ') + 1));
  return names;
}

std::string StorageProgram::read(const std::string& file) const {
  return run("cannot read from it", scripts_->read, path_of(file));
}

void StorageProgram::write(const std::string& file, const std::string& text) const {
  run("cannot write to it", scripts_->write, path_of(file), text);
}

void StorageProgram::put(const fs::path& from, const std::string& folder) const {
  run("cannot write to it", scripts_->put, path_of(folder), from.string(), Ends::when_it_stalls);
}

void StorageProgram::get(const std::string& folder, const fs::path& to) const {
  run("cannot copy from it", scripts_->get, path_of(folder), to.string(), Ends::when_it_stalls);
}

void StorageProgram::remove_file(const std::string& file) const {
  run("cannot remove from it", scripts_->remove_file, path_of(file));
}

void StorageProgram::remove_folder(const std::string& folder) const {
  run("cannot remove from it", scripts_->remove_folder, path_of(folder));
}

void StorageProgram::rest(std::chrono::milliseconds time) const {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    if (is_stopped()) throw run_error("{}: it is not waited for, because the run is being stopped", place_);
    std::this_thread::sleep_for(std::min(time, std::chrono::milliseconds(5)));
  }
}

bool StorageProgram::ends() const {
  if (!ends_ || !ends_()) {  // also because the run goes on after all, with those who are left
    ends_since_ = Clock::time_point();
    given_up_ = false;
    return false;
  }
  auto never = Clock::time_point();
  ends_since_.compare_exchange_strong(never, Clock::now());
  return true;
}

std::string StorageProgram::run(const char* what, const char* script, const std::string& path,
                                const std::string& second, Ends ending) const {
  require();
  if (ends() && given_up_) throw run_error("{}: it did not answer when the run was being stopped", place_);
  const bool copies = ending != Ends::within_a_minute;
  const Lifeline lifeline;
  const Output output;
  const Output errors;
  Stalls stalls;
  std::string late;
  const auto start = Clock::now();
  const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  const auto goes_on = [&](int group) {
    for (const Output* said : {&errors, copies ? &output : &errors}) said->keep_end();
    const bool stopping = ends();
    const auto since = ends_since_.load();  // zero if another thread has just seen that the run goes on
    const bool is_over =
        stopping && since != Clock::time_point() && Clock::now() - since > patience_.all_at_stop;
    const auto patience = stopping ? patience_.at_stop : patience_.of_copy;
    if (copies && stalls(group, patience))
      late = fmt::format("it has copied nothing for {:g} s", seconds(patience));
    else if (is_stopped() || given_up_)
      late = "the run is being stopped";
    else if (is_over)
      late = fmt::format("the run has been stopped {:g} s ago", seconds(patience_.all_at_stop));
    else if (!copies && Clock::now() - start > kMinute)
      late = fmt::format("it has not ended within {} s", kMinute.count());
    else if (!copies && output.size() > kMostOutput)
      late = fmt::format("it has said more than {} MiB", kMostOutput >> 20);
    // What is small may be late because a copy that goes on fills the line.
    if (stopping && (copies || is_over) && !late.empty() && !is_stopped()) given_up_ = true;
    return late.empty();
  };
  const int status = run_child({.name = "output.storage",
                                .words = {"/bin/sh", "-c", kEndsWithTelar, script, path, second},
                                .environment = environment_,
                                .input = lifeline.read_end(),
                                .output = output.file(),
                                .errors = errors.file()},
                               goes_on);
  if (status == 0) return copies ? "" : output.text();
  const std::string why = last_lines_of(errors.end());
  const std::string text = fmt::format("{}: {} {}: {}{}{}", place_, scripts_->program, what,
                                       late.empty() ? ending_text(status) : late + ", and was killed",
                                       why.empty() ? "" : ": ", why);
  if (late.empty() || ending != Ends::when_it_stalls || is_stopped() || given_up_)
    throw run_error("{}", text);
  if (warn_) warn_(text + "; it is tried again");
  return run(what, script, path, second, Ends::when_it_stalls_again);
}

}  // namespace telar
