#include "telar/observe/process.h"

#include <omp.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <thread>

namespace telar {

uint64_t peak_memory_bytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

int available_threads() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  // The mask has room for 1,024 CPUs. With more, the call fails and the host's number is used.
  const bool known = sched_getaffinity(0, sizeof mask, &mask) == 0;
  const int processors = known ? CPU_COUNT(&mask) : static_cast<int>(std::thread::hardware_concurrency());
  return std::min(processors, omp_get_thread_limit());
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
  return memory;
}

ContainerLimits read_container_limits(const std::filesystem::path& root) {
  // Both files contain "max" if there is no limit. That is not a number, so the field stays empty.
  ContainerLimits limits;
  std::ifstream cpu(root / "sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (cpu >> quota >> period && period > 0) limits.cpus = quota / period;
  std::ifstream memory(root / "sys/fs/cgroup/memory.max");
  uint64_t bytes = 0;
  if (memory >> bytes) limits.memory_bytes = bytes;
  return limits;
}

}  // namespace telar
