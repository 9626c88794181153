#include "telar/cli/weave_project.h"

#include <algorithm>
#include <cstdlib>

#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
#include "telar/io/text_file.h"

namespace telar::cli {

namespace {

namespace fs = std::filesystem;

/// Version control, caches and virtual environments are not part of a program.
bool is_left_out(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return name.starts_with('.') || name == "__pycache__" ||
         (entry.is_directory() && fs::exists(entry.path() / "pyvenv.cfg"));
}

std::string joined(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

const weave::WovenFile* find(const std::vector<weave::WovenFile>& files, const std::string& path) {
  const auto found =
      std::find_if(files.begin(), files.end(), [&](const auto& one) { return one.path == path; });
  return found == files.end() ? nullptr : &*found;
}

void copy(const fs::path& from, const fs::path& to, const fs::path& output, const std::string& within,
          const std::vector<weave::WovenFile>& files) {
  fs::create_directories(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    std::error_code ignored;
    if (is_left_out(entry) || fs::equivalent(entry.path(), output, ignored)) continue;
    const std::string path = joined(within, entry.path().filename().string());
    const fs::path target = to / entry.path().filename();
    if (const weave::WovenFile* woven = find(files, path)) {
      write_file(target, woven->bytes);
    } else if (entry.is_directory()) {
      copy(entry.path(), target, output, path, files);
    } else if (entry.is_regular_file()) {
      fs::copy_file(entry.path(), target, fs::copy_options::overwrite_existing);
    }
  }
}

}  // namespace

std::optional<std::string> bytes_of_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  return read_text_file(path, "the script");
}

std::string path_within(const fs::path& project, const std::string& script) {
  if (!fs::is_directory(project)) throw user_error("there is no folder {}", project.string());
  for (const fs::path& candidate : {fs::path(script), project / script}) {
    if (!fs::is_regular_file(candidate)) continue;
    const fs::path within = fs::relative(candidate, project);
    if (!within.empty() && *within.begin() != "..") return within.generic_string();
  }
  throw user_error("there is no script {} in the project {}", script, project.string());
}

void write_project(const fs::path& project, const fs::path& output,
                   const std::vector<weave::WovenFile>& files) {
  std::error_code ignored;
  if (fs::equivalent(project, output, ignored))
    throw user_error("{} is the project itself; use --in-place to change it", output.string());
  if (fs::exists(output) && !fs::is_directory(output))
    throw user_error("{} is not a folder; a project is written to a folder", output.string());
  const fs::path around = fs::relative(project, output);
  if (!around.empty() && *around.begin() != "..")
    throw user_error("the project {} is inside {}; write it to another folder", project.string(),
                     output.string());
  copy(project, output, output, "", files);
}

TemporaryProject::TemporaryProject(const fs::path& project, const std::vector<weave::WovenFile>& files)
    : files_(files) {
  std::string name = (fs::temp_directory_path() / "telar-woven-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw run_error("no temporary folder can be created at {}", name);
  folder_ = name;
  link(fs::absolute(project), folder_, "");
}

/// Creates the folders that contain woven files, and links everything else.
void TemporaryProject::link(const fs::path& from, const fs::path& to, const std::string& within) {
  fs::create_directories(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    if (is_left_out(entry)) continue;
    const std::string path = joined(within, entry.path().filename().string());
    const fs::path target = to / entry.path().filename();
    const bool has_woven = std::any_of(files_.begin(), files_.end(),
                                       [&](const auto& one) { return one.path.starts_with(path + "/"); });
    if (const weave::WovenFile* woven = find(files_, path)) {
      write_file(target, woven->bytes);
    } else if (has_woven) {
      link(entry.path(), target, path);
    } else {
      fs::create_symlink(entry.path(), target);
    }
  }
}

bool TemporaryProject::keeps_files() const {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_)) {
    if (!entry.is_regular_file() || entry.is_symlink() || entry.path().extension() == ".pyc") continue;
    if (find(files_, fs::relative(entry.path(), folder_).generic_string()) == nullptr) return true;
  }
  return false;
}

TemporaryProject::~TemporaryProject() {
  std::error_code ignored;
  if (!keeps_files()) fs::remove_all(folder_, ignored);
}

}  // namespace telar::cli
