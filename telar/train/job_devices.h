#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telar/graph/program.h"
#include "telar/train/job.h"

namespace telar {

/// A device by its name in a job: "cpu", "cpu:0-7" and "cpu:0,2" (these cores), "cuda" or "gpu" (cuda:0), "cuda:1". Its threads are 0
/// where the name says nothing of them. Throws Error (user) for another name.
DeviceSpec device_named(const std::string& name);

/// The same for the process that is the `index`-th of its host, which sees so many GPUs: "cuda" or "gpu", without a number, is then the GPU of
/// that index, of which there may be fewer than processes.
DeviceSpec device_named(const std::string& name, int index, int gpus);

/// The name of replica or worker `r` among strategy.devices, one of which stands for all.
const std::string& device_of(const StrategyJob& strategy, size_t r);

/// What stops this machine from computing on these devices, as a sentence without a full stop; empty when all of them are here.
std::string missing_device(const std::vector<std::string>& devices);

/// Whether there is a processor, or a GPU, among them.
bool has_processor(const StrategyJob& strategy);
bool has_gpu(const StrategyJob& strategy);
/// Whether replicas run on processors and on GPUs.
bool devices_differ(const StrategyJob& strategy);

}  // namespace telar
