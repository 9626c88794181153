// Times training steps of a pipeline beside `single` on one stage's threads, and shows what the pipeline loses where.
//
//   bench_pipeline                                   the network, batch and cut of the issue: 2 stages × 1 thread, 8 micro-batches
//   bench_pipeline --workload convnet --micro-batches 4 --stages 3

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>

#include "telar/bench/timing.h"
#include "telar/bench/workloads.h"
#include "telar/core/error.h"
#include "telar/observe/hardware.h"
#include "telar/runtime/operation_costs.h"

namespace {

using namespace telar;
using namespace telar::bench;

struct Options {
  std::string workload = "resnet34_7x7";
  int64_t batch = 64;
  int64_t stages = 2;
  int64_t micro_batches = 8;
  int threads = 1;
  int rounds = 5;
  double seconds = 2;
};

Cluster cluster_of(int64_t stages, int threads) {
  Cluster cluster;
  for (int64_t s = 0; s < stages; ++s) {
    DeviceSpec device{"cpu", threads, {}};
    for (int t = 0; t < threads; ++t) device.cores.push_back(static_cast<int>(s) * threads + t);
    cluster.devices.push_back(device);
  }
  return cluster;
}

/// The layer with whose first operation each stage but the first begins.
std::string cut_text(const Program& program) {
  std::string text;
  for (size_t w = 1; w < program.workers.size(); ++w) {
    const Node& first = program.workers[w].gradient.nodes().front();
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", first.scope, first.op->name());
  }
  return text;
}

double median(std::vector<double> values) { return Times{std::move(values)}.median(); }

/// Processor milliseconds of a call, over all threads, with what they spin away.
template <typename Body>
double processor_ms(const Body& body) {
  constexpr int kCalls = 10;
  const std::clock_t start = std::clock();
  for (int i = 0; i < kCalls; ++i) body();
  return 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / kCalls;
}

void run(const Options& options) {
  Workload workload = make_workload(options.workload);
  workload.options.batch = options.batch;
  const TrainingStep step = make_training_step(workload.model, workload.options);
  const Cluster one = cluster_of(1, options.threads);
  const Cluster all = cluster_of(options.stages, options.threads);
  StrategyOptions strategy{.micro_batches = options.micro_batches};
  strategy.costs = measure_costs(step, one.devices.front(), options.micro_batches);

  Session single(make_single()->rewrite(step, one), one, {.seed = 1});
  Session pipeline(balanced_pipeline(step, all, strategy), all, {.seed = 1});
  const Samples samples(workload, options.batch);
  const int64_t micro_batch = (options.batch + options.micro_batches - 1) / options.micro_batches;
  int64_t number = 0;
  const auto stepper = [&](Session& session, int64_t size) {
    return [&, size] {
      BatchView view = samples.view();
      view.size = size;
      session.train(view, {.learning_rate = 1e-4F, .step = ++number, .epoch = 0});
    };
  };
  const auto single_step = stepper(single, options.batch);
  const auto small_step = stepper(single, micro_batch);
  const auto pipeline_step = stepper(pipeline, options.batch);
  std::vector<double> single_ms;
  std::vector<double> small_ms;
  std::vector<double> pipeline_ms;
  // In turn, so that a change of the machine's speed meets all of them.
  for (int round = 0; round < options.rounds; ++round) {
    single_ms.push_back(time_calls(options.seconds, single_step).median());
    small_ms.push_back(time_calls(options.seconds / 4, small_step).median());
    pipeline_ms.push_back(time_calls(options.seconds, pipeline_step).median());
  }
  double whole = 0;
  double pieces = 0;
  for (const OperationCost& cost : strategy.costs) {
    whole += cost.batch;
    pieces += cost.micro_batches;
  }
  const auto images = [&](double ms, int64_t size) { return 1e3 * static_cast<double>(size) / ms; };
  const Bubble bubble = *pipeline.bubble();
  fmt::print("{}, batch {}, {} stages × {} threads, {} micro-batches; {}\n", options.workload, options.batch,
             options.stages, options.threads, options.micro_batches, read_cpu().model);
  fmt::print("single, {} threads            {:8.1f} ms  {:7.1f} images/s\n", options.threads,
             median(single_ms), images(median(single_ms), options.batch));
  fmt::print("single, batches of {:<4}        {:8.1f} ms  {:7.1f} images/s\n", micro_batch, median(small_ms),
             images(median(small_ms), micro_batch));
  fmt::print("pipeline                     {:8.1f} ms  {:7.1f} images/s\n", median(pipeline_ms),
             images(median(pipeline_ms), options.batch));
  fmt::print("pipeline / single                {:.2f}\n", median(single_ms) / median(pipeline_ms));
  fmt::print("bubble measured                  {:.3f}  beside (p-1)/(m+p-1) = {:.3f}\n", bubble.measured,
             bubble.formula);
  fmt::print("processor time of a step         single {:.1f} ms, pipeline {:.1f} ms\n",
             processor_ms(single_step), processor_ms(pipeline_step));
  fmt::print("gradient's operations alone, one thread: whole batch {:.1f} ms, in micro-batches {:.1f} ms\n",
             1e3 * whole, 1e3 * pieces);
  fmt::print("stages begin at                  {}\n", cut_text(pipeline.program()));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Times a pipeline's training step beside single's");
  app.add_option("--workload", options.workload, fmt::format("{}", fmt::join(workload_names(), ", ")));
  app.add_option("--batch", options.batch, "samples of a step");
  app.add_option("--stages", options.stages, "each on cores of its own");
  app.add_option("--micro-batches", options.micro_batches, "into which the batch is cut");
  app.add_option("--threads", options.threads, "of each stage, and of single");
  app.add_option("--rounds", options.rounds, "of single and pipeline in turn");
  app.add_option("--seconds", options.seconds, "of each in a round");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return error.kind() == Error::Kind::user ? 2 : 1;
  }
  return 0;
}
