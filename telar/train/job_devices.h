#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telar/graph/program.h"
#include "telar/train/job.h"

namespace telar {

/// The device for a name in a job: "cpu", "cpu:0-7" or "cpu:0,2" (these cores), "cuda" or "gpu" (cuda:0),
/// "cuda:1". Its number of threads is 0 if the name does not determine it. Throws Error (user) for any other
/// name.
DeviceSpec device_named(const std::string& name);

/// The same for process number `index` on its host, which has `gpus` GPUs. "cuda" and "gpu" without a number
/// then mean the GPU with that index; there may be fewer GPUs than processes.
DeviceSpec device_named(const std::string& name, int index, int gpus);

/// The name in strategy.devices for replica or worker `r`. A single name applies to all of them.
const std::string& device_of(const StrategyJob& strategy, size_t r);

/// Why this machine cannot use these devices, without a full stop; empty if all of them are available.
std::string missing_device(const std::vector<std::string>& devices);

/// True if one of the devices is a CPU, or a GPU.
bool has_processor(const StrategyJob& strategy);
bool has_gpu(const StrategyJob& strategy);
/// True if the replicas run on both CPUs and GPUs.
bool devices_differ(const StrategyJob& strategy);

}  // namespace telar
