#include "telar/bench/gpu_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "telar/bench/graph_run.h"
#include "telar/bench/kept_figures.h"
#include "telar/bench/products.h"
#include "telar/bench/timing.h"
#include "telar/core/error.h"
#include "telar/device/cuda.h"
#include "telar/graph/ops/arithmetic.h"

namespace telar::bench {

namespace {

constexpr double kSecondsASize = 0.25;  // of each size

/// True if the GPU has memory for twice as many bytes, to leave room for workspace.
bool has_room(const Device& device, double bytes) {
  const std::optional<size_t> free = device.free_memory();
  return !free || 2 * bytes <= static_cast<double>(*free);
}

/// The best rate over sides that double until the memory is used up or the GPU takes too long.
double product_rate(int number, RowPrecision precision) {
  constexpr int64_t kSmallest = 64;
  constexpr int64_t kLargest = 8192;
  constexpr double kPatience = 50;  // milliseconds of one product
  double best = 0;
  double expected = 0;
  for (int64_t side = kSmallest; side <= kLargest && expected < kPatience; side *= 2) {
    const auto n = static_cast<double>(side);
    auto device = make_cuda_device(number);
    if (side > kSmallest && !has_room(*device, 3 * n * n * static_cast<double>(size_of(precision.dtype))))
      break;
    GraphRun run(matmul_graph(side, precision.dtype), std::move(device), precision.tf32);
    const double ms = time_calls(kSecondsASize, [&] { run.run(); }).min();
    best = std::max(best, 2e3 * n * n * n / ms);
    expected = 8 * ms;
  }
  return best;
}

/// The number of consecutive sums in a graph, so that the start of a run is negligible.
constexpr int kSums = 8;

Graph sums_graph(int64_t floats) {
  GraphBuilder builder;
  const TensorType type{DType::f32, Shape({floats})};
  const ValueId a = builder.input("a", type, false);
  ValueId sum = builder.input("b", type, false);
  for (int i = 0; i < kSums; ++i) sum = add(builder, sum, a);
  builder.output("y", sum);
  return builder.build();
}

/// The rate for the largest arrays that fit in memory and do not take too long. Smaller ones would fit in the
/// GPU's cache.
double memory_rate(int number) {
  constexpr int64_t kFewest = int64_t{1} << 20;
  constexpr int64_t kMost = int64_t{1} << 26;
  constexpr double kPatience = 50;  // milliseconds of one run
  double rate = 0;
  double expected = 0;
  for (int64_t floats = kFewest; floats <= kMost && expected < kPatience; floats *= 4) {
    const double bytes = 3.0 * sizeof(float) * static_cast<double>(floats);  // two are read, one is written
    auto device = make_cuda_device(number);
    if (floats > kFewest && !has_room(*device, bytes)) break;
    GraphRun run(sums_graph(floats), std::move(device));
    const double ms = time_calls(kSecondsASize, [&] { run.run(); }).min();
    rate = 1e3 * kSums * bytes / ms;
    expected = 4 * ms;
  }
  return rate;
}

/// The rate of copies from pinned memory.
double host_rate(int number) {
  constexpr size_t kBytes = size_t{64} << 20;
  const auto device = make_cuda_device(number);
  device->enter();
  const auto memory = device->allocate(kBytes);
  Buffer host(kBytes);
  const auto pinned = device->pin(host.as<std::byte>());
  if (!pinned) return 0;
  const double ms =
      time_calls(kSecondsASize, [&] { device->copy_in(host.as<const std::byte>(), memory->data()); }).min();
  return 1e3 * static_cast<double>(kBytes) / ms;
}

/// The GPU with this number, and the driver. Throws Error (user) if there is none.
std::pair<CudaGpu, std::string> find_gpu(int number) {
  CudaGpus found = find_cuda_gpus();
  if (!found.not_found.empty()) throw user_error("{}", found.not_found);
  if (static_cast<size_t>(number) >= found.gpus.size()) throw user_error("there is no cuda:{}", number);
  return {std::move(found.gpus[static_cast<size_t>(number)]), std::move(found.driver)};
}

/// Identifies stored limits: GPUs with the same name and driver share them.
std::string gpu_key(int number) {
  const auto [gpu, driver] = find_gpu(number);
  return fmt::format("{}, driver for CUDA {}", gpu.name, driver);
}

}  // namespace

double GpuLimits::operations(RowPrecision precision) const {
  if (precision.dtype == DType::bf16) return bf16_operations;
  return precision.tf32 ? tf32_operations : f32_operations;
}

GpuLimits measure_gpu_limits(int number) {
  GpuLimits limits;
  limits.cache_bytes = static_cast<double>(find_gpu(number).first.cache);
  limits.f32_operations = product_rate(number, {});
  limits.tf32_operations = product_rate(number, {DType::f32, true});
  limits.bf16_operations = product_rate(number, {DType::bf16});
  limits.memory_bytes = memory_rate(number);
  limits.host_bytes = host_rate(number);
  return limits;
}

GpuLimits known_gpu_limits(int number) {
  const Figures kept = kept_figures(gpu_key(number));
  const GpuLimits limits{kept.of("f32_operations"), kept.of("tf32_operations"), kept.of("bf16_operations"),
                         kept.of("memory_bytes"),   kept.of("host_bytes"),      kept.of("cache_bytes")};
  const bool whole = limits.f32_operations > 0 && limits.tf32_operations > 0 && limits.bf16_operations > 0 &&
                     limits.memory_bytes > 0;
  return whole ? limits : renewed_gpu_limits(number);
}

GpuLimits renewed_gpu_limits(int number) {
  const GpuLimits limits = measure_gpu_limits(number);
  keep_gpu_limits(number, limits);
  return limits;
}

void keep_gpu_limits(int number, const GpuLimits& limits) {
  keep_figures(gpu_key(number), {{{"f32_operations", limits.f32_operations},
                                  {"tf32_operations", limits.tf32_operations},
                                  {"bf16_operations", limits.bf16_operations},
                                  {"memory_bytes", limits.memory_bytes},
                                  {"host_bytes", limits.host_bytes},
                                  {"cache_bytes", limits.cache_bytes}}});
}

std::string gpu_text(int number) {
  const CudaGpus found = find_cuda_gpus();
  if (static_cast<size_t>(number) >= found.gpus.size()) return {};
  const CudaGpu& gpu = found.gpus[static_cast<size_t>(number)];
  return fmt::format("cuda:{} is {} with {} multiprocessors, driver for CUDA {}.", number, gpu.name,
                     gpu.multiprocessors, found.driver);
}

}  // namespace telar::bench
