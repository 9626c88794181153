#include "telar/bench/environments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "telar/comm/processes.h"
#include "telar/core/error.h"
#include "telar/device/cuda.h"
#include "telar/observe/process.h"
#include "telar/strategy/strategy.h"

namespace telar::bench {

namespace {

/// A whole number from 1 to 4096; 0 for anything else.
int count_in(const std::string& text) {
  constexpr int kMost = 4096;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = !text.empty() && error == std::errc() && end == text.data() + text.size();
  return whole && number >= 1 && number <= kMost ? number : 0;
}

bool is_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nothing changes it
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((std::filesystem::path(folder) / program).c_str(), X_OK) == 0) return true;
  return false;
}

std::string text_of(const std::string& key, int number) { return fmt::format("strategy.{}={}", key, number); }
std::string named(const StrategyType& type) { return "strategy.name=" + type.name; }

/// Whether the option `count` is the number of workers, of which no other option makes more.
bool counts_all(const StrategyType& type) {
  constexpr int64_t kSome = 7;
  return !type.count.empty() && make_strategy(type.name, {{type.count, kSome}}).workers().count == kSome;
}

/// The strategies of several workers in one process, which are environments: "replicas:2", "pipeline:2".
std::vector<const StrategyType*> in_one_process() {
  std::vector<const StrategyType*> types;
  for (const StrategyType& type : strategy_types())
    if (!type.uses_servers && counts_all(type)) types.push_back(&type);
  return types;
}

/// "replicas": what the workers are called, for data parallelism; otherwise the strategy's name.
const std::string& kind_of(const StrategyType& type) {
  return &type == &data_parallel_type() ? type.count : type.name;
}

std::string kinds_text() {
  std::string text;
  for (const StrategyType* type : in_one_process())
    text += fmt::format("{}:N (N {} in one process), ", kind_of(*type), type->count);
  return text;
}

}  // namespace

std::string without_mpi() {
  if (!can_join_processes()) return "this build has no MPI";
  return is_in_path("mpirun") ? "" : "there is no mpirun in PATH";
}

std::vector<std::string> mpirun_words(int processes) {
  std::vector<std::string> words = {"mpirun", "-n", std::to_string(processes)};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  if (processes > available_threads()) words.emplace_back("--oversubscribe");
  return words;
}

namespace {

/// The environments "gpu", "gpu:N" (N GPUs) and "gpu+cpu" (the first GPU, and the cores that do not feed it).
TrainingEnvironment with_gpus(const std::string& name, int gpus) {
  TrainingEnvironment environment{.name = name, .threads = 0, .on_gpus = true};
  const CudaGpus found = find_cuda_gpus();
  if (static_cast<size_t>(gpus) > found.gpus.size()) {
    environment.impossible = !found.not_found.empty()
                                 ? found.not_found
                                 : fmt::format("there {} {} GPU{}", found.gpus.size() == 1 ? "is" : "are",
                                               found.gpus.size(), found.gpus.size() == 1 ? "" : "s");
    return environment;
  }
  if (name == "gpu+cpu") {
    environment.threads = std::max(1, available_threads() - 1);
    environment.settings = {named(data_parallel_type()), R"(strategy.devices=["cuda:0", "cpu"])",
                            text_of("threads", environment.threads)};
    return environment;
  }
  if (gpus == 1) environment.gpu = 0;
  std::vector<std::string> devices;
  for (int gpu = 0; gpu < gpus; ++gpu) devices.push_back(fmt::format("\"cuda:{}\"", gpu));
  environment.settings = {named(gpus == 1 ? sequential_type() : data_parallel_type()),
                          fmt::format("strategy.devices=[{}]", fmt::join(devices, ", "))};
  return environment;
}

}  // namespace

TrainingEnvironment environment_of(const std::string& name) {
  if (name == "gpu" || name == "gpu+cpu") return with_gpus(name, 1);
  const int all = available_threads();
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  const std::string number = colon == std::string::npos ? "" : name.substr(colon + 1);
  const int count = number == "all" && kind == "cpu" ? all : count_in(number);
  if (kind == "gpu" && count > 0) return with_gpus(name, count);
  const bool processes = kind == "mpi";
  const auto types = in_one_process();
  const auto found =
      std::ranges::find_if(types, [&](const StrategyType* type) { return kind_of(*type) == kind; });
  const StrategyType* type = processes ? &data_parallel_type() : found == types.end() ? nullptr : *found;
  if (count == 0 || (kind != "cpu" && type == nullptr)) {
    throw user_error(
        "there is no environment '{}'; give cpu:N (N threads), cpu:all, {}mpi:N (N processes), gpu, gpu:N (N GPUs) or gpu+cpu",
        name, kinds_text());
  }
  TrainingEnvironment environment{.name = name, .threads = count};
  if (count > all) {
    environment.impossible = fmt::format("this process may use {} thread{}", all, all == 1 ? "" : "s");
    return environment;
  }
  if (kind == "cpu") {
    environment.settings = {named(sequential_type()), text_of("threads", count)};
    return environment;
  }
  const int each = all / count;
  environment.threads = each * count;
  environment.settings = {named(*type), text_of(type->count, processes ? 1 : count),
                          text_of("threads", each)};
  if (!processes) return environment;
  environment.processes = count;
  environment.impossible = without_mpi();
  return environment;
}

}  // namespace telar::bench
