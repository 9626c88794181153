#include "telar/bench/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "telar/bench/child.h"
#include "telar/bench/comm.h"
#include "telar/bench/crew.h"
#include "telar/bench/environments.h"
#include "telar/bench/graph_run.h"
#include "telar/bench/kept_figures.h"
#include "telar/bench/products.h"
#include "telar/bench/result.h"
#include "telar/bench/timing.h"
#include "telar/core/buffer.h"
#include "telar/device/cpu/onednn.h"
#include "telar/device/cpu/parallel.h"
#include "telar/device/cpu/processor_support.h"
#include "telar/io/temporary_folder.h"
#include "telar/observe/activity.h"
#include "telar/observe/hardware.h"

namespace telar::bench {

namespace {

constexpr double kSecondsAFigure = 0.5;  // of each figure

/// The best rate over several sizes, which are large enough to hide the start-up and small enough not to be
/// limited by memory.
double product_rate(DType dtype, int threads) {
  constexpr std::array<int64_t, 4> kSides{768, 1024, 1536, 2048};
  double best = 0;
  for (const int64_t side : kSides) {
    GraphRun run(matmul_graph(side, dtype), threads);
    const auto n = static_cast<double>(side);
    best = std::max(best, 2e3 * n * n * n / time_calls(kSecondsAFigure, [&] { run.run(); }).min());
  }
  return best;
}

size_t last_level_bytes() {
  size_t bytes = 0;
  for (const CpuCache& cache : read_cpu().caches)
    if (cache.level >= 3) bytes += cache.bytes * static_cast<size_t>(cache.count);
  return bytes;
}

/// The rate of a copy between two blocks of memory. Each is four times as large as all last-level caches
/// together, within 64 MiB and 1 GiB.
double copy_rate() {
  const size_t cached = last_level_bytes();
  const auto floats =
      static_cast<int64_t>(std::clamp(4 * cached, size_t{64} << 20, size_t{1} << 30) / sizeof(float));
  Buffer memory(static_cast<size_t>(2 * floats) * sizeof(float));
  float* to = memory.as<float>().data();
  const float* from = to + floats;
  const double ms = time_calls(kSecondsAFigure, [&] {
                      cpu::parallel_for(floats, 8192, [&](int64_t begin, int64_t end) {
                        std::copy(from + begin, from + end, to + begin);
                      });
                    }).min();
  return 2e3 * static_cast<double>(memory.size()) / 2 / ms;
}

/// Bytes of gradients per second that each thread gets summed.
double all_reduce_rate(int threads) {
  if (threads < 2) return 0;
  constexpr size_t kBytes = size_t{64} << 20;
  Crew crew(threads);
  std::vector<std::span<std::byte>> gradients;
  for (int t = 0; t < threads; ++t) gradients.push_back(crew.member(t).allocate(kBytes));
  const auto mine = [&](const Group& group) {
    const std::span<std::byte> memory = gradients[static_cast<size_t>(group.rank())];
    return std::span<float>{reinterpret_cast<float*>(memory.data()), memory.size() / sizeof(float)};
  };
  const Times times = crew.time(
      kSecondsAFigure, [&](const Group& group) { std::ranges::fill(mine(group), 1.0F); },
      [&](Group& group) { group.all_reduce(mine(group)); });
  return 1e3 * static_cast<double>(kBytes) / times.min();
}

/// Identifies stored limits by everything that they depend on.
std::string cpu_key(int threads) {
  const dnnl_version_t* onednn = dnnl_version();
  return fmt::format("{}, {} threads, oneDNN {}.{}.{}", read_cpu().model, threads, onednn->major,
                     onednn->minor, onednn->patch);
}

std::optional<Limits> kept_limits(int threads) {
  const Figures kept = kept_figures(cpu_key(threads));
  const Limits limits{threads,
                      kept.of("f32_operations"),
                      kept.of("bf16_operations"),
                      kept.of("memory_bytes"),
                      kept.of("all_reduce_bytes"),
                      kept.of("process_all_reduce_bytes"),
                      kept.of("cache_bytes"),
                      kept.of("others")};
  const bool has_bf16 = limits.bf16_operations > 0 || !cpu::bf16_missing().empty();
  if (limits.f32_operations <= 0 || !has_bf16 || limits.memory_bytes <= 0) return std::nullopt;
  return limits;
}

}  // namespace

double least_milliseconds(double operations, double operation_rate, double bytes, double byte_rate,
                          double cache_bytes) {
  return 1e3 * std::max(operations / operation_rate, bytes > cache_bytes ? bytes / byte_rate : 0.0);
}

Limits measure_limits(int threads) {
  const OthersActivity others;
  Limits limits;
  limits.threads = threads;
  limits.f32_operations = product_rate(DType::f32, threads);
  if (cpu::bf16_missing().empty()) limits.bf16_operations = product_rate(DType::bf16, threads);
  limits.memory_bytes = copy_rate();
  limits.all_reduce_bytes = all_reduce_rate(threads);
  limits.cache_bytes = static_cast<double>(last_level_bytes());
  limits.others = others.processors();
  return limits;
}

double measure_all_reduce_between(int processes, const std::string& program,
                                  const std::function<bool()>& stop_requested) {
  const TemporaryFolder folder("telar-limits");
  const auto result = folder.path() / "comm.json";
  const auto log = folder.path() / "comm.log";
  std::vector<std::string> words = mpirun_words(processes);
  for (const std::string& word :
       {program, std::string("bench"), std::string("comm"), std::string("--no-steps"),
        std::string("--replicas"), std::to_string(processes), std::string("--seconds"),
        fmt::format("{}", kSecondsAFigure), std::string("--json"), result.string()})
    words.push_back(word);
  Child child({"mpirun", words, {}, log});
  std::optional<int> status;
  while (!(status = child.ended())) {
    if (stop_requested()) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (*status != 0)
    throw run_error("{}", sentence_in(log, "telar bench comm under mpirun " + ending_text(*status)));
  std::ifstream file(result);
  const auto json = nlohmann::json::parse(file);
  for (const auto& row : json.at("rows"))
    if (row.at("what") == "all-reduce" && row.at("by") == fmt::format("{} processes", processes))
      return 1e3 * static_cast<double>(CommOptions().bytes) / row.at("min_ms").get<double>();
  throw run_error("telar bench comm under mpirun measured no all-reduce between {} processes", processes);
}

bool machine_is_quiet() {
  const OthersActivity others;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return others.processors() <= kQuiet;
}

Limits known_limits(int threads, const std::function<bool()>& quiet) {
  const std::optional<Limits> kept = kept_limits(threads);
  return kept && (kept->others <= kQuiet || !quiet()) ? *kept : renewed_limits(threads);
}

std::string busy_text(const Limits& limits) {
  if (limits.others <= kQuiet) return {};
  return fmt::format(
      "The limits of {} thread{} were measured while other processes used {:.1f} processors, so this machine can do more. They are measured again when the machine is quiet, or by telar bench limits.",
      limits.threads, limits.threads == 1 ? "" : "s", limits.others);
}

Limits renewed_limits(int threads) {
  Limits limits = measure_limits(threads);
  if (const auto kept = kept_limits(threads))
    limits.process_all_reduce_bytes = kept->process_all_reduce_bytes;
  keep_limits(limits);
  return limits;
}

void keep_limits(const Limits& limits) {
  keep_figures(cpu_key(limits.threads), {{{"f32_operations", limits.f32_operations},
                                          {"bf16_operations", limits.bf16_operations},
                                          {"memory_bytes", limits.memory_bytes},
                                          {"all_reduce_bytes", limits.all_reduce_bytes},
                                          {"process_all_reduce_bytes", limits.process_all_reduce_bytes},
                                          {"cache_bytes", limits.cache_bytes},
                                          {"others", limits.others}}});
}

}  // namespace telar::bench
