// Times whole training steps of Telar: gradient, exchange and update, with the batch in memory.
//
//   bench_step --workload resnet34_3x3 --json
//   bench_step --workload mlp128 --profile

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "limit.h"
#include "telar/bench/timing.h"
#include "telar/bench/workloads.h"
#include "telar/core/error.h"
#include "telar/io/safetensors.h"
#include "telar/observe/hardware.h"
#include "telar/observe/process.h"

namespace {

using namespace telar;
using namespace telar::bench;

struct Options {
  std::string workload;
  std::string check;
  double seconds = 1;
  int threads = 2;
  int replicas = 1;
  bool json = false;
  bool memory = false;
  bool profile = false;
  bool no_limit = false;
  bool winograd = false;
};

void print(const nlohmann::ordered_json& record, bool json) {
  if (json) {
    fmt::print("{}\n", record.dump());
    return;
  }
  for (const auto& [key, value] : record.items()) fmt::print("{}: {}\n", key, value.dump());
}

void print_profile(Session& session, const Samples& samples) {
  std::map<std::string, double> by_operation;
  std::vector<OperationTime> slowest;
  for (int i = 0; i < 5; ++i)
    slowest = session.profile(samples.view(), {.learning_rate = 0, .step = 1, .epoch = 0});
  double total = 0;
  for (const OperationTime& time : slowest) {
    by_operation[time.op] += time.seconds;
    total += time.seconds;
  }
  fmt::print("gradient {:.3f} ms\n", 1e3 * total);
  for (const auto& [name, seconds] : by_operation) fmt::print("  {:<40} {:9.3f} ms\n", name, 1e3 * seconds);
  std::stable_sort(slowest.begin(), slowest.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  for (size_t i = 0; i < std::min<size_t>(20, slowest.size()); ++i) {
    fmt::print("  {:<30} {:<30} {:9.3f} ms\n", slowest[i].scope, slowest[i].op, 1e3 * slowest[i].seconds);
  }
}

/// Writes the weights and the batch to a file, and prints the losses of 20 steps that start from them. A peer
/// must find the same losses.
void print_losses(const Options& options, Session& session, const Samples& samples,
                  const Workload& workload) {
  constexpr int kSteps = 20;
  std::vector<NamedTensor> tensors;
  for (const StateName& name : session.state_names()) {
    if (name.is_parameter())
      tensors.push_back({name.parameter, session.state_shape(name), session.read_state(name)});
  }
  std::vector<int64_t> extents{workload.options.batch};
  for (size_t i = 0; i < workload.model.sample.rank(); ++i) extents.push_back(workload.model.sample[i]);
  tensors.push_back({"batch/x", Shape(extents), samples.x});
  tensors.push_back(
      {"batch/label", Shape({workload.options.batch}), {samples.labels.begin(), samples.labels.end()}});
  OutputFile file(options.check, OutputFile::Mode::truncate);
  write_safetensors(file, tensors);
  // Small, so that rounding differences stay small: at its usual rate, a residual network turns 1e-7 into
  // 1e-2 within five steps.
  constexpr float kRate = 1e-5F;
  std::vector<double> losses;
  for (int64_t step = 1; step <= kSteps; ++step) {
    const StepResult result =
        session.train(samples.view(), {.learning_rate = kRate, .step = step, .epoch = 0});
    losses.push_back(result.metrics.front() / static_cast<double>(workload.options.batch));
  }
  print({{"kind", "losses"}, {"workload", options.workload}, {"learning_rate", kRate}, {"losses", losses}},
        true);
}

/// Times of the steps and of their limit, measured in alternating turns. The limit has one figure per turn.
struct Turns {
  Times steps, products, optimizer, limits;
  Times over_limit;  ///< a turn's median step divided by its limit
};

/// Runs at least 10 steps, and `seconds` each of steps and of the limit, after a warm-up. `alone`: null for
/// steps without a limit.
template <typename Step>
Turns take_turns(double seconds, const Step& step, StepAlone* alone) {
  constexpr int kTurns = 5;
  Turns turns;
  time_calls(
      3, [] {}, step);
  for (int turn = 0; turn < kTurns; ++turn) {
    const Times mine = time_calls(
        2, seconds / kTurns, [] {}, step);
    turns.steps.milliseconds.insert(turns.steps.milliseconds.end(), mine.milliseconds.begin(),
                                    mine.milliseconds.end());
    if (alone == nullptr) continue;
    const Limit limit = alone->measure(seconds / kTurns);
    turns.products.milliseconds.push_back(limit.products_ms);
    turns.optimizer.milliseconds.push_back(limit.optimizer_ms);
    turns.limits.milliseconds.push_back(limit.total());
    turns.over_limit.milliseconds.push_back(mine.median() / limit.total());
  }
  return turns;
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

void run(const Options& options) {
  Workload workload = make_workload(options.workload);
  const int64_t batch = workload.options.batch * options.replicas;  // each replica has the same batch
  workload.options.batch = batch;
  if (options.winograd && workload.options.precision != Precision::f32)
    throw user_error("--winograd is for f32, and {} computes in bf16", options.workload);
  if (options.winograd) workload.options.convolution = Convolution::winograd;
  const uint64_t before = peak_memory_bytes();
  auto session = make_session(workload, options.replicas, options.threads);
  const Samples samples(workload, batch);
  int64_t number = 0;
  const auto step = [&] {
    session->train(samples.view(), {.learning_rate = 1e-4F, .step = ++number, .epoch = 0});
  };
  if (!options.check.empty()) return print_losses(options, *session, samples, workload);
  if (options.profile) {
    step();
    print_profile(*session, samples);
    return;
  }
  if (options.json) {
    print({{"kind", "environment"},
           {"framework", "telar"},
           {"version", "0.1.0"},
           {"cpu", read_cpu().model},
           {"threads", options.threads * options.replicas},
           {"date", date()}},
          true);
  }
  if (options.memory) {
    for (int i = 0; i < 5; ++i) step();
    print({{"kind", "memory"},
           {"framework", "telar"},
           {"workload", options.workload},
           {"setting", "as it comes"},
           {"peak_bytes", peak_memory_bytes()},
           {"after_import_bytes", before}},
          options.json);
    return;
  }
  const std::string name = options.workload + (options.winograd ? "_winograd" : "");
  const bool limited = !options.no_limit && options.replicas == 1;
  std::optional<StepAlone> alone;
  if (limited) {
    omp_set_num_threads(options.threads);
    alone.emplace(make_training_step(workload.model, workload.options));
  }
  const Turns turns = take_turns(options.seconds, step, alone ? &*alone : nullptr);
  const Times& times = turns.steps;
  nlohmann::ordered_json record{
      {"kind", "step"},
      {"framework", "telar"},
      {"workload", name},
      {"setting", fmt::format("{} × {} threads", options.replicas, options.threads)},
      {"reps", times.milliseconds.size()},
      {"median_ms", times.median()},
      {"min_ms", times.min()},
      {"max_ms", times.max()},
      {"mean_ms", times.mean()},
      {"images_per_second", 1e3 * static_cast<double>(batch) / times.median()}};
  if (limited) {
    record["limit_products_ms"] = turns.products.median();
    record["limit_optimizer_ms"] = turns.optimizer.median();
    record["limit_ms"] = turns.limits.median();
    record["over_limit"] = turns.over_limit.median();
  }
  print(record, options.json);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Times a training step of Telar with the batch in memory");
  app.add_option("--workload", options.workload, fmt::format("{}", fmt::join(workload_names(), ", ")))
      ->required();
  app.add_option("--check", options.check,
                 "write weights and batch to this file, and print the losses of 20 steps instead of times");
  app.add_option("--seconds", options.seconds,
                 "minimum time of the steps (at least 10), and of measuring their limit");
  app.add_option("--threads", options.threads,
                 "threads of each replica; 0: as many as telar train would use");
  app.add_option("--replicas", options.replicas,
                 "more than 1: strategy mirrored, with the same batch for each");
  app.add_flag(
      "--winograd", options.winograd,
      "use Winograd's algorithm for convolutions where it is faster; the limit remains that of direct ones");
  app.add_flag("--json", options.json, "print JSON, one object per line");
  app.add_flag("--memory", options.memory, "print the peak memory of a few steps instead of times");
  app.add_flag("--profile", options.profile, "print the time of each operation");
  app.add_flag("--no-limit", options.no_limit, "do not measure the limit");
  CLI11_PARSE(app, argc, argv);
  if (options.threads == 0) options.threads = std::max(1, available_threads() / options.replicas);
  try {
    run(options);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return error.kind() == Error::Kind::user ? 2 : 1;
  }
  return 0;
}
