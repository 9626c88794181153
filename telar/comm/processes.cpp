#include "telar/comm/processes.h"

#include <array>
#include <cstdlib>
#include <utility>

#include "telar/core/error.h"

namespace telar {

void Processes::broadcast(std::string& text, int from) {
  std::array<uint64_t, 1> length = {text.size()};
  broadcast(std::as_writable_bytes(std::span(length)), from);
  text.resize(length[0]);
  broadcast(std::as_writable_bytes(std::span(text)), from);
}

bool Processes::any(bool value) { return lowest(value ? 0 : 1) == 0; }

std::string Processes::first_text(std::string text) {
  const int first = lowest(text.empty() ? size() : rank());
  if (first < size()) broadcast(text, first);
  return text;
}

bool Processes::lost() const {
  try {
    check();
    return false;
  } catch (const Error&) {
    return true;
  }
}

std::vector<std::string> Processes::gather(const std::string& text) {
  std::vector<std::string> texts(static_cast<size_t>(size()), text);
  for (int from = 0; from < size(); ++from) broadcast(texts[static_cast<size_t>(from)], from);
  return texts;
}

void Processes::require_same(const std::string& text, const std::string& what) {
  std::string first = text;
  broadcast(first);
  const int different = lowest(first == text ? size() : rank());
  if (different < size()) throw user_error("rank {} differs from rank 0 in {}", different, what);
}

void require_started_alone(const std::string& why) {
  // They count the processes of this step. Those of the allocation (SLURM_NTASKS) are also in the environment
  // of a batch script, which is one process.
  constexpr std::array<std::pair<const char*, const char*>, 4> kLaunchers = {
      {{"OMPI_COMM_WORLD_SIZE", "mpirun"},
       {"SLURM_STEP_NUM_TASKS", "srun"},
       {"PMI_SIZE", "mpiexec"},
       {"WORLD_SIZE", "torchrun"}}};
  for (const auto& [variable, launcher] : kLaunchers) {
    const char* count = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): one thread
    if (count == nullptr || std::string(count) == "1") continue;
    throw user_error("{} has started {} processes ({}), but {}", launcher, count, variable, why);
  }
}

}  // namespace telar
