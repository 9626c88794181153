#include "telar/observe/process.h"

#include <fmt/format.h>
#include <omp.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "telar/core/memory_limit.h"

namespace telar {

uint64_t peak_memory_bytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

int bound_threads() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  // The mask has room for 1,024 CPUs. With more, the call fails and the host's number is used.
  const bool known = sched_getaffinity(0, sizeof mask, &mask) == 0;
  const int processors = known ? CPU_COUNT(&mask) : static_cast<int>(std::thread::hardware_concurrency());
  return std::min(processors, omp_get_thread_limit());
}

int available_threads(int processes, const CgroupLimits& limits) {
  // If mpirun has bound this process to processors, it does not share them with other processes.
  const bool bound = bound_threads() < static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  int threads = bound_threads() / (bound ? 1 : processes);
  if (limits.cpus) threads = std::min(threads, static_cast<int>(std::ceil(*limits.cpus / processes)));
  return std::max(1, threads);
}

std::string quota_text(int processes, const CgroupLimits& limits) {
  const int threads = available_threads(processes, limits);
  if (threads == available_threads(processes, {})) return "";
  return fmt::format(
      "a control group allows this process the time of {:.3g} CPUs, so {} thread{} used by default",
      *limits.cpus, threads, threads == 1 ? " is" : "s are");
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

MemoryInfo read_memory(const std::filesystem::path& root) {
  MemoryInfo memory;
  std::ifstream stream(root / "proc/meminfo");
  std::string key;
  for (uint64_t kibibytes = 0; stream >> key >> kibibytes;) {
    if (key == "MemTotal:") memory.total = kibibytes * 1024;
    if (key == "MemAvailable:") memory.available = kibibytes * 1024;
    stream.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (const auto left = read_cgroup_limits(root).memory_left)
    memory.available = std::min(memory.available, *left);
  return memory;
}

uint64_t usable_memory_bytes(const std::filesystem::path& root) {
  const uint64_t total = read_memory(root).total;
  if (total == 0) return 0;
  const uint64_t group = read_cgroup_limits(root).memory_bytes.value_or(total);
  const auto own = memory_limit();
  return std::min({total, group, own ? own->bytes : total});
}

}  // namespace telar
