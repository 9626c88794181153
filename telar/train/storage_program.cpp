#include "telar/train/storage_program.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

#include "telar/core/error.h"
#include "telar/observe/child_process.h"

namespace telar {

namespace fs = std::filesystem;

// Of a folder of this machine, the one above must be there: an absent one may be a disk that is not mounted.
// rclone ends with 3 if a folder is not there, which of object stores also an empty one is; aws with 1.
const StorageProgram::Scripts StorageProgram::kRclone = {
    .program = "rclone",
    .list = R"(rclone lsf "$1" || [ $? = 3 ])",
    .read = R"(rclone cat "$1")",
    .put = R"(rclone copy "$2" "$1")",
    .get = R"(rclone copy "$1" "$2")",
    .remove_file = R"(rclone deletefile "$1")",
    .remove_folder = R"(rclone purge "$1")",
};
const StorageProgram::Scripts StorageProgram::kAws = {
    .program = "aws",
    .list = R"(aws s3 ls --cli-connect-timeout 10 "$1/" || [ $? = 1 ])",
    .read = R"(aws s3 cp --only-show-errors "$1" -)",
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
    .put = R"({ [ -d "$1" ] || mkdir "$1"; } && cp -R "$2/." "$1" && sync -f "$1")",
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
  std::string text() const {
    std::string text;
    std::array<char, 4096> bytes{};
    for (ssize_t count = 0;
         (count = ::pread(file_, bytes.data(), bytes.size(), static_cast<off_t>(text.size()))) > 0;)
      text.append(bytes.data(), static_cast<size_t>(count));
    return text;
  }

 private:
  int file_;
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

StorageProgram::StorageProgram(std::string place) : place_(std::move(place)), root_(place_), scripts_(&kCp) {
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

std::vector<std::string> StorageProgram::list() const {
  std::istringstream lines(run("cannot list it", scripts_->list, root_));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) names.push_back(line.substr(line.rfind(' ') + 1));
  return names;
}

std::string StorageProgram::read(const std::string& file) const {
  return run("cannot read from it", scripts_->read, root_ + "/" + file);
}

void StorageProgram::put(const fs::path& from, const std::string& folder) const {
  run("cannot write to it", scripts_->put, folder.empty() ? root_ : root_ + "/" + folder, from, {});
}

void StorageProgram::get(const std::string& folder, const fs::path& to) const {
  run("cannot copy from it", scripts_->get, root_ + "/" + folder, to, {});
}

void StorageProgram::remove_file(const std::string& file) const {
  run("cannot remove from it", scripts_->remove_file, root_ + "/" + file);
}

void StorageProgram::remove_folder(const std::string& folder) const {
  run("cannot remove from it", scripts_->remove_folder, root_ + "/" + folder);
}

std::string StorageProgram::run(const char* what, const char* script, const std::string& path,
                                const fs::path& folder, std::optional<std::chrono::seconds> limit) const {
  require();
  const Output output;
  const Output errors;
  const int status = run_child({.name = "output.storage",
                                .words = {"/bin/sh", "-c", script, "sh", path, folder.string()},
                                .environment = environment_,
                                .output = output.file(),
                                .errors = errors.file()},
                               limit);
  if (status == 0) return output.text();
  const std::string why = last_lines_of(errors.text());
  const bool late = limit && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  throw run_error("{}: {} {}: {}{}{}", place_, scripts_->program, what,
                  late ? fmt::format("it has not ended within {} s", limit->count()) : ending_text(status),
                  why.empty() ? "" : ": ", why);
}

}  // namespace telar
