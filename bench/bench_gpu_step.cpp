// Times whole training steps of Telar on a GPU, queued one after another: the host waits only at the end of a
// round.
//
//   bench_gpu_step --workload resnet34_224_bf16 --json
//   bench_gpu_step --workload mlp32 --copy

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "telar/bench/timing.h"
#include "telar/bench/workloads.h"
#include "telar/core/error.h"
#include "telar/device/cuda.h"

namespace {

using namespace telar;
using namespace telar::bench;

struct Options {
  std::string workload;
  std::string device = "cuda:0";
  double seconds = 2;
  bool copy = false;
  bool json = false;
};

/// Starts steps one after another, and returns when the last is done.
class Steps {
 public:
  Steps(Session& session, const Samples& samples, bool copy)
      : session_(session), view_(samples.view()), copy_(copy) {}

  void run(int count) {
    int64_t under_way = 0;
    for (int i = 0; i < count; ++i) {
      view_.again = !copy_ && number_ > 0;
      session_.begin(view_, {.learning_rate = 1e-5F, .step = ++number_, .epoch = 0});
      ++under_way;
      while (under_way > 0 && take(false)) --under_way;
    }
    for (; under_way > 0; --under_way) take(true);
  }

 private:
  bool take(bool wait) {
    const auto result = session_.finished(wait);
    if (result && !result->finite) throw run_error("the loss of step {} is not finite", number_);
    return result.has_value();
  }

  Session& session_;
  BatchView view_;
  bool copy_;
  int64_t number_ = 0;
};

double milliseconds(Steps& steps, int count) {
  const auto start = std::chrono::steady_clock::now();
  steps.run(count);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / count;
}

void run(const Options& options) {
  if (!cuda_number(options.device))
    throw user_error("--device is {}; it must be a GPU: cuda:N", options.device);
  const Workload workload = make_workload(options.workload);
  auto session = make_session(workload, 1, 1, nullptr, options.device);
  const Samples samples(workload, workload.options.batch);
  Steps steps(*session, samples, options.copy);
  constexpr int kRounds = 20;
  constexpr int kFewest = 5;
  constexpr int kMost = 10'000;
  steps.run(kFewest);
  const double estimate = milliseconds(steps, kFewest);
  const int count = std::clamp(static_cast<int>(1e3 * options.seconds / kRounds / estimate), kFewest, kMost);
  Times times;
  for (int round = 0; round < kRounds; ++round) times.milliseconds.push_back(milliseconds(steps, count));
  const nlohmann::ordered_json record{
      {"kind", "step"},
      {"framework", "telar"},
      {"workload", options.workload},
      {"setting", options.copy ? "the batch comes from the host" : "the batch is on the GPU"},
      {"device", session->device_names().front()},
      {"rounds", kRounds},
      {"steps_a_round", count},
      {"median_ms", times.median()},
      {"min_ms", times.min()},
      {"max_ms", times.max()},
      {"images_per_second", 1e3 * static_cast<double>(workload.options.batch) / times.median()}};
  if (options.json) {
    fmt::print("{}\n", record.dump());
  } else {
    for (const auto& [key, value] : record.items()) fmt::print("{}: {}\n", key, value.dump());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Times training steps of Telar on a GPU");
  app.add_option("--workload", options.workload, fmt::format("{}", fmt::join(workload_names(), ", ")))
      ->required();
  app.add_option("--device", options.device, "cuda:N");
  app.add_option("--seconds", options.seconds, "total time of the 20 rounds");
  app.add_flag("--copy", options.copy, "copy each step's batch from host memory");
  app.add_flag("--json", options.json, "print JSON on one line");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const Error& error) {
    fmt::print(stderr, "bench_gpu_step: {}\n", error.what());
    return error.kind() == Error::Kind::user ? 2 : 1;
  }
  return 0;
}
