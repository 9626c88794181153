#include "telar/observe/cgroup.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace telar {

namespace {

namespace fs = std::filesystem;

/// One line of /proc/self/mountinfo that mounts control groups.
struct CgroupMount {
  std::string type;         ///< "cgroup" or "cgroup2"
  std::string controllers;  ///< version 1: options such as "rw,cpu,cpuacct"
  fs::path group;           ///< the group that is mounted, "/" outside a container
  fs::path folder;          ///< where it is mounted
};

/// The words of a line, which single spaces separate.
std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

/// Whether a list such as "rw,cpu,cpuacct" contains the word.
bool lists(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

/// Format: proc_pid_mountinfo(5). The fields after "-" are the type, the source and the options.
std::vector<CgroupMount> read_mounts(const fs::path& root) {
  std::vector<CgroupMount> mounts;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = words_of(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 5 || words.end() - dash < 4 || !dash[1].starts_with("cgroup")) continue;
    mounts.push_back({dash[1], dash[3], words[3], words[4]});
  }
  return mounts;
}

/// The process's group for a controller of version 1, or for "" of version 2. Format: cgroups(7), lines such
/// as "4:cpu,cpuacct:/user.slice" and "0::/user.slice". Empty if there is none.
std::string group_of(const fs::path& root, const std::string& controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : lists(controllers, controller))
      return line.substr(second + 1);
  }
  return {};
}

/// The folders of the process's group and of the groups around it, innermost first, as far as `mount` shows
/// them. Inside a container the group may be named from outside it; then only the mounted folder is visible.
std::vector<fs::path> folders_of(const fs::path& root, const CgroupMount& mount, const std::string& group) {
  const fs::path top = root / mount.folder.relative_path();
  const fs::path below = fs::path(group).lexically_relative(mount.group);
  std::vector<fs::path> folders;
  if (!group.empty() && !below.empty() && *below.begin() != ".." && below != ".") {
    for (fs::path inner = below; !inner.empty(); inner = inner.parent_path()) folders.push_back(top / inner);
  }
  folders.push_back(top);
  return folders;
}

/// A number of bytes; "max" (version 2) and numbers near 2⁶³ (version 1) mean that there is no limit.
std::optional<uint64_t> bytes_in(const fs::path& file) {
  std::ifstream stream(file);
  uint64_t bytes = 0;
  constexpr uint64_t kUnlimited = uint64_t{1} << 60U;
  if (!(stream >> bytes) || bytes >= kUnlimited) return std::nullopt;
  return bytes;
}

/// The number after a key of a file with lines such as "inactive_file 4096"; 0 if it is missing.
uint64_t number_after(const fs::path& file, const std::string& key) {
  std::ifstream stream(file);
  std::string name;
  for (uint64_t number = 0; stream >> name >> number;) {
    if (name == key) return number;
  }
  return 0;
}

template <typename Number>
void keep_least(std::optional<Number>& least, std::optional<Number> number) {
  if (number && (!least || *number < *least)) least = number;
}

std::optional<double> ratio(double quota, double period) {
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

/// Version 1 has quota and period in two files, with -1 for no limit; version 2 in one, with "max".
std::optional<double> cpus_of(const fs::path& folder) {
  double quota = 0;
  double period = 0;
  if (std::ifstream both(folder / "cpu.max"); both >> quota >> period) return ratio(quota, period);
  std::ifstream quota_file(folder / "cpu.cfs_quota_us");
  std::ifstream period_file(folder / "cpu.cfs_period_us");
  if (quota_file >> quota && period_file >> period) return ratio(quota, period);
  return std::nullopt;
}

void add_memory(const fs::path& folder, bool second_version, CgroupLimits& limits) {
  const auto most = bytes_in(folder / (second_version ? "memory.max" : "memory.limit_in_bytes"));
  if (!most) return;
  keep_least(limits.memory_bytes, most);
  const auto used = bytes_in(folder / (second_version ? "memory.current" : "memory.usage_in_bytes"));
  if (!used) return;
  const uint64_t cache =
      number_after(folder / "memory.stat", second_version ? "inactive_file" : "total_inactive_file");
  const uint64_t kept = *used - std::min(*used, cache);
  keep_least(limits.memory_left, std::optional<uint64_t>(*most - std::min(*most, kept)));
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  for (const CgroupMount& mount : read_mounts(root)) {
    const bool second = mount.type == "cgroup2";
    for (const char* controller : {"cpu", "memory"}) {
      if (!second && !lists(mount.controllers, controller)) continue;
      const std::string group = group_of(root, second ? "" : controller);
      for (const fs::path& folder : folders_of(root, mount, group)) {
        if (controller == std::string("cpu")) keep_least(limits.cpus, cpus_of(folder));
        if (controller == std::string("memory")) add_memory(folder, second, limits);
      }
    }
  }
  return limits;
}

}  // namespace telar
