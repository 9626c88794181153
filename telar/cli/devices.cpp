#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "telar/cli/table.h"
#include "telar/cli/verbs.h"
#include "telar/device/cuda.h"
#include "telar/observe/hardware.h"
#include "telar/observe/process.h"

namespace telar::cli {

namespace {

/// "0-3,8".
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (end > i) text += fmt::format("-{}", numbers[end]);
    i = end + 1;
  }
  return text;
}

nlohmann::ordered_json json_of(const CudaGpus& cuda) {
  nlohmann::ordered_json json;
  json["driver"] = cuda.driver;
  json["gpus"] = nlohmann::ordered_json::array();
  for (const CudaGpu& gpu : cuda.gpus) {
    json["gpus"].push_back({{"device", fmt::format("cuda:{}", json["gpus"].size())},
                            {"model", gpu.name},
                            {"memory_bytes", gpu.memory},
                            {"compute_capability", gpu.capability},
                            {"multiprocessors", gpu.multiprocessors},
                            {"peers", gpu.peers},
                            {"nvlink_peers", gpu.by_nvlink}});
  }
  json["not_found"] =
      cuda.not_found.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(cuda.not_found);
  json["lost"] = cuda.lost.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(cuda.lost);
  return json;
}

/// The GPUs that CUDA can use. If the search found no GPU, the CUDA module is not loaded, and the result is
/// empty.
std::optional<CudaGpus> find_cuda_gpus(const NvidiaSearch& nvidia) {
  if (nvidia.gpus.empty()) return std::nullopt;
  return telar::find_cuda_gpus();
}

nlohmann::ordered_json json_of(const CpuInfo& cpu, const NvidiaSearch& nvidia,
                               const std::optional<CudaGpus>& cuda) {
  nlohmann::ordered_json json;
  json["cpu"] = {{"model", cpu.model},
                 {"packages", cpu.packages},
                 {"cores", cpu.cores},
                 {"threads", cpu.threads},
                 {"available_threads", available_threads()},
                 {"features", cpu.features}};
  json["cpu"]["core_groups"] = nlohmann::ordered_json::array();
  for (const CoreGroup& group : cpu.groups) {
    json["cpu"]["core_groups"].push_back({{"threads", group.threads},
                                          {"cores", group.cores},
                                          {"package", group.package},
                                          {"cache_bytes", group.cache_bytes}});
  }
  json["cpu"]["caches"] = nlohmann::ordered_json::array();
  for (const CpuCache& cache : cpu.caches) {
    json["cpu"]["caches"].push_back({{"level", cache.level},
                                     {"type", cache.type},
                                     {"bytes", cache.bytes},
                                     {"threads", cache.threads},
                                     {"count", cache.count}});
  }
  const MemoryInfo memory = read_memory();
  json["memory"] = {{"total_bytes", memory.total}, {"available_bytes", memory.available}};
  const CgroupLimits limits = read_cgroup_limits();
  const auto or_null = [](const auto& limit) {
    return limit ? nlohmann::ordered_json(*limit) : nlohmann::ordered_json();
  };
  json["control_group"] = {{"cpus", or_null(limits.cpus)}, {"memory_bytes", or_null(limits.memory_bytes)}};
  json["gpus"] = nlohmann::ordered_json::array();
  for (const NvidiaGpu& gpu : nvidia.gpus) {
    json["gpus"].push_back({{"model", gpu.model}, {"bus", gpu.bus}, {"minor", gpu.minor}});
  }
  json["gpus_not_found"] =
      nvidia.not_found.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(nvidia.not_found);
  if (cuda) json["cuda"] = json_of(*cuda);
  return json;
}

std::string text_of(const CudaGpus& cuda) {
  std::string text;
  for (size_t g = 0; g < cuda.gpus.size(); ++g) {
    const CudaGpu& gpu = cuda.gpus[g];
    text += fmt::format("cuda:{}   {}: {}, {} multiprocessors, compute capability {}\n", g, gpu.name,
                        bytes_text(gpu.memory), gpu.multiprocessors, gpu.capability);
    if (!gpu.peers.empty())
      text += fmt::format(
          "         direct access to the memory of cuda:{}{}\n", ranges(gpu.peers),
          gpu.by_nvlink.empty() ? "" : fmt::format(", over NVLink for cuda:{}", ranges(gpu.by_nvlink)));
  }
  if (!cuda.gpus.empty()) text += fmt::format("         driver for CUDA {}\n", cuda.driver);
  if (!cuda.lost.empty()) text += fmt::format("         {}\n", cuda.lost);
  if (!cuda.not_found.empty()) text += fmt::format("cuda     {}\n", cuda.not_found);
  return text;
}

std::string text_of(const CpuInfo& cpu, const NvidiaSearch& nvidia, const std::optional<CudaGpus>& cuda) {
  std::string text =
      fmt::format("cpu      {}: {} cores, {} threads, of which {} are available to this process\n", cpu.model,
                  cpu.cores, cpu.threads, available_threads());
  const CgroupLimits limits = read_cgroup_limits();
  if (limits.cpus)
    text += fmt::format("         a control group limits this process to the time of {:.3g} CPUs\n",
                        *limits.cpus);
  text += fmt::format("         {}\n", fmt::join(cpu.features, " "));
  for (size_t g = 0; g < cpu.groups.size(); ++g) {
    const CoreGroup& group = cpu.groups[g];
    text += fmt::format("group {}  threads {} ({} cores)", g, ranges(group.threads), group.cores);
    text +=
        group.cache_bytes == 0 ? "\n" : fmt::format(", {} of shared cache\n", bytes_text(group.cache_bytes));
  }
  for (const CpuCache& cache : cpu.caches) {
    text += fmt::format("cache    L{} {}: {} × {}, {} threads each\n", cache.level, cache.type, cache.count,
                        bytes_text(cache.bytes), cache.threads);
  }
  const MemoryInfo memory = read_memory();
  text += fmt::format("memory   {}, {} free\n", bytes_text(memory.total), bytes_text(memory.available));
  if (limits.memory_bytes)
    text +=
        fmt::format("         a control group limits this process to {}\n", bytes_text(*limits.memory_bytes));
  for (const NvidiaGpu& gpu : nvidia.gpus) {
    text += fmt::format("gpu {}    {} at {}\n", gpu.minor, gpu.model, gpu.bus);
  }
  if (cuda) text += text_of(*cuda);
  if (!nvidia.not_found.empty()) text += fmt::format("gpu      NVIDIA: {}\n", nvidia.not_found);
  return text;
}

}  // namespace

void add_devices(Verb& program) {
  auto json = std::make_shared<bool>(false);
  Verb verb =
      program.subverb("devices", "Lists the devices of this machine, and what was looked for but not found");
  verb.flag("--json", *json, "Print JSON");
  verb.footer("Example:\n  telar devices");
  verb.action_of_each_process([json] {
    const CpuInfo cpu = read_cpu();
    const NvidiaSearch nvidia = find_nvidia_gpus();
    const std::optional<CudaGpus> cuda = find_cuda_gpus(nvidia);
    std::cout << (*json ? json_of(cpu, nvidia, cuda).dump(2) + "\n" : text_of(cpu, nvidia, cuda));
    return 0;
  });
}

}  // namespace telar::cli
