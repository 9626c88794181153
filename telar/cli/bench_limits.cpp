#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "telar/bench/environments.h"
#include "telar/bench/gpu_limits.h"
#include "telar/bench/kept_figures.h"
#include "telar/bench/limits.h"
#include "telar/bench/machine_watch.h"
#include "telar/bench/place.h"
#include "telar/cli/bench.h"
#include "telar/cli/experiment.h"
#include "telar/core/error.h"
#include "telar/device/cuda.h"
#include "telar/observe/process.h"
#include "telar/observe/stop_request.h"

namespace telar::cli {

namespace {

struct LimitsArguments {
  std::vector<std::string> devices;
  ResultFiles files;
};

/// One thread, all threads, and each GPU of this machine.
std::vector<std::string> devices_here() {
  std::vector<std::string> devices = {"cpu:1"};
  if (available_threads() > 1) devices.push_back(fmt::format("cpu:{}", available_threads()));
  const size_t gpus = find_cuda_gpus().gpus.size();
  for (size_t gpu = 0; gpu < gpus; ++gpu) devices.push_back(fmt::format("cuda:{}", gpu));
  return devices;
}

/// A rate in billions per second; nothing if it was not measured.
std::optional<double> giga(double rate) { return rate > 0 ? std::optional(1e-9 * rate) : std::nullopt; }

std::vector<bench::Figure> figures_of(const bench::Limits& limits) {
  std::vector<bench::Figure> figures = {{"product f32", "GFLOP/s", giga(limits.f32_operations)},
                                        {"product bf16", "GFLOP/s", giga(limits.bf16_operations)},
                                        {"memory, read and written", "GB/s", giga(limits.memory_bytes)},
                                        {"last-level caches", "MB", 1e-6 * limits.cache_bytes}};
  if (limits.threads == 1) return figures;
  figures.push_back({"gradients, between threads", "GB/s", giga(limits.all_reduce_bytes)});
  figures.push_back({"gradients, between processes", "GB/s", giga(limits.process_all_reduce_bytes)});
  return figures;
}

std::vector<bench::Figure> figures_of(const bench::GpuLimits& limits) {
  return {{"product f32", "GFLOP/s", giga(limits.f32_operations)},
          {"product tf32", "GFLOP/s", giga(limits.tf32_operations)},
          {"product bf16", "GFLOP/s", giga(limits.bf16_operations)},
          {"memory, read and written", "GB/s", giga(limits.memory_bytes)},
          {"last-level caches", "MB", 1e-6 * limits.cache_bytes},
          {"from the host", "GB/s", giga(limits.host_bytes)}};
}

/// Measures the all-reduce between `limits.threads` processes. If that is impossible, a remark gives the
/// reason.
void add_processes(bench::Limits& limits, bench::Result& result, const std::function<bool()>& stop) {
  std::string impossible = bench::without_mpi();
  if (impossible.empty()) {
    std::cerr << "measuring between " << limits.threads << " processes …\n";
    try {
      limits.process_all_reduce_bytes = bench::measure_all_reduce_between(
          limits.threads, std::filesystem::read_symlink("/proc/self/exe").string(), stop);
    } catch (const Error& error) {
      impossible = error.what();
    }
  }
  if (!impossible.empty())
    result.remarks.push_back(fmt::format("Not measured between processes: {}.", impossible));
}

/// Saves the limits. A remark names the file, or gives the reason why they could not be saved.
void keep(bench::Result& result, const std::function<void()>& keep_limits) {
  std::string remark = fmt::format("Saved in {}.", bench::limits_file().string());
  try {
    keep_limits();
  } catch (const Error& error) {
    remark = fmt::format("Not saved: {}.", error.what());
  }
  const auto same = std::find(result.remarks.begin(), result.remarks.end(), remark);
  if (same == result.remarks.end()) result.remarks.push_back(std::move(remark));
}

void measure_processors(int threads, bench::ResultRow& row, bench::Result& result,
                        const std::function<bool()>& stopped) {
  bench::Limits limits = bench::measure_limits(threads);
  if (threads > 1 && !stopped()) add_processes(limits, result, stopped);
  row.figures = figures_of(limits);
  if (!stopped())
    keep(result, [&] { bench::keep_limits(limits); });  // limits saved before have all their figures
  if (const std::string text = bench::busy_text(limits); !text.empty()) result.remarks.push_back(text);
}

void measure_gpu(int number, bench::ResultRow& row, bench::Result& result) {
  try {
    const bench::GpuLimits limits = bench::measure_gpu_limits(number);
    row.figures = figures_of(limits);
    keep(result, [&] { bench::keep_gpu_limits(number, limits); });
    if (std::string text = bench::gpu_text(number); !text.empty()) result.remarks.push_back(std::move(text));
  } catch (const Error& error) {
    row.impossible = error.what();
  }
}

int limits_of_machine(const LimitsArguments& arguments) {
  const StopRequest stop(kExperimentStops);
  const auto stopped = [&stop] { return stop.requested(); };
  const std::vector<std::string> devices = arguments.devices.empty() ? devices_here() : arguments.devices;
  for (const std::string& device : devices) bench::place_of(device);  // throws before anything is measured
  const bench::MachineWatch watch;
  bench::Result result{
      "limits", "Limits of this machine, the best of several runs", {"device"}, {}, "", 0, {}, {}};
  for (const std::string& device : devices) {
    if (stopped()) break;
    std::cerr << "measuring " << device << " …\n";
    const bench::Place place = bench::place_of(device);
    bench::ResultRow row{{device}, std::nullopt, place.impossible};
    if (place.gpu) {
      measure_gpu(*place.gpu, row, result);
    } else if (place.impossible.empty()) {
      measure_processors(place.threads, row, result, stopped);
    }
    result.rows.push_back(std::move(row));
  }
  result.drawn = "product f32";
  watch.finish(result);
  publish(result, arguments.files);
  return stop.requested() ? 128 + stop.signal_number() : 0;
}

}  // namespace

void add_bench_limits(Verb& bench) {
  auto arguments = std::make_shared<LimitsArguments>();
  Verb verb = bench.subverb("limits", "Limits of this machine and its GPUs: products, memory, all-reduce");
  verb.option(
          "--devices", arguments->devices,
          "Devices to measure, one row each: cpu (all threads), cpu:N (N threads), gpu, cuda:N (GPU N); without it one thread, all threads, and each GPU")
      .comma_separated();
  add_result_files(verb, arguments->files);
  verb.footer(
      "The limits are saved, and the other experiments compare their figures with them. Each limit is the best of several\n"
      "runs; run nothing else meanwhile. The all-reduce is measured between threads and, with MPI, between processes.");
  verb.action([arguments] { return limits_of_machine(*arguments); });
}

}  // namespace telar::cli
