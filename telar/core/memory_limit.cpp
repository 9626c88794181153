#include "telar/core/memory_limit.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <new>
#include <system_error>

namespace telar {

std::optional<MemoryLimit> memory_limit() {
  std::optional<MemoryLimit> least;
  const auto consider = [&](auto resource, const char* name) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    if (!least || limit.rlim_cur < least->bytes) least = MemoryLimit{limit.rlim_cur, name};
  };
  consider(RLIMIT_AS, "ulimit -v");
  consider(RLIMIT_DATA, "ulimit -d");
  return least;
}

Error out_of_memory(const std::string& wanted) {
  std::string text = "not enough memory";
  if (!wanted.empty()) text += ": " + wanted;
  if (const auto limit = memory_limit())
    text += fmt::format("; {} allows this process {:.0f} MiB", limit->name,
                        static_cast<double>(limit->bytes) / 1048576.0);
  return run_error("{}; a smaller batch or model needs less", text);
}

Error as_error(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error); ours != nullptr) return *ours;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return out_of_memory("");
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return run_error(
        "a thread could not be started ({}); a limit of processes (ulimit -u) or of memory (ulimit -v) may be reached",
        error.what());
  return run_error("{}", error.what());
}

void require_free_memory(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw out_of_memory(fmt::format("{:.1f} MiB wanted", static_cast<double>(bytes) / 1048576.0));
  munmap(memory, bytes);
}

}  // namespace telar
