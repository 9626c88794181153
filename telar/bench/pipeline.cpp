#include "telar/bench/pipeline.h"

#include <fmt/format.h>

#include <ctime>

#include "telar/bench/machine_watch.h"
#include "telar/bench/workloads.h"
#include "telar/core/error.h"
#include "telar/runtime/operation_costs.h"

namespace telar::bench {

namespace {

Cluster cluster_of(int64_t stages, int threads) {
  Cluster cluster;
  for (int64_t s = 0; s < stages; ++s) {
    DeviceSpec device{"cpu", threads, {}};
    for (int t = 0; t < threads; ++t) device.cores.push_back(static_cast<int>(s) * threads + t);
    cluster.devices.push_back(device);
  }
  return cluster;
}

std::string cut_text(const Program& program) {
  std::string text;
  for (int64_t w = 1; w < program.mesh.workers(); ++w) {
    const Node& first = program.worker(w).gradient.nodes().front();
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", first.scope, first.op->name());
  }
  return text;
}

/// CPU time of a call in milliseconds, over all threads.
template <typename Body>
double processor_ms(const Body& body) {
  constexpr int kCalls = 10;
  const std::clock_t start = std::clock();
  for (int i = 0; i < kCalls; ++i) body();
  return 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / kCalls;
}

void check(const PipelineOptions& options) {
  const auto within = [](const char* name, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most) throw user_error("{} is {}; give {} to {}", name, value, least, most);
  };
  within("the batch", options.batch, 1, 1 << 20);
  within("the number of stages", options.stages, 2, 1024);
  within("the number of micro-batches", options.micro_batches, 1, options.batch);
  within("the number of threads", options.threads, 1, 1024);
  within("the number of rounds", options.rounds, 1, 1000);
}

/// Each value is the median of a round.
struct PipelineTimes {
  Times single;
  Times micro_batch;  ///< the single device, in a step over as many samples as one micro-batch
  Times pipeline;
};

std::string threads_text(int threads) { return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s"); }

ResultRow row_of(const std::string& what, const std::string& by, const Times& times, int64_t samples,
                 double single_rate) {
  const double rate = 1e3 * static_cast<double>(samples) / times.median();
  return {{what, by},
          Measured{times, 0, 0, 0, false, std::nullopt},
          "",
          {{"images per second", "", rate}, {"× one", "", rate / single_rate}}};
}

}  // namespace

void add_pipeline_rows(Result& result, const PipelineOptions& options) {
  check(options);
  Workload workload = make_workload(options.workload);
  workload.options.batch = options.batch;
  const TrainingStep step = make_training_step(workload.model, workload.options);
  const Cluster one = cluster_of(1, options.threads);
  const Cluster all = cluster_of(options.stages, options.threads);
  const auto strategy = make_strategy("pipeline", {{"micro_batches", options.micro_batches}});

  Session single(sequential_program(step), one, {.seed = 1});
  Session pipeline(measured_program(strategy, step, all), all, {.seed = 1});
  const Samples samples(workload, options.batch);
  int64_t number = 0;
  const auto stepper = [&](Session& session, int64_t size) {
    return [&, size] {
      BatchView view = samples.view();
      view.size = size;
      session.train(view, {.learning_rate = 1e-4F, .step = ++number, .epoch = 0});
    };
  };
  const int64_t micro_batch = (options.batch + options.micro_batches - 1) / options.micro_batches;
  const auto single_step = stepper(single, options.batch);
  const auto small_step = stepper(single, micro_batch);
  const auto pipeline_step = stepper(pipeline, options.batch);
  PipelineTimes times;
  for (int round = 0; round < options.rounds; ++round) {
    times.single.milliseconds.push_back(time_calls(options.seconds, single_step).median());
    times.micro_batch.milliseconds.push_back(time_calls(options.seconds / 4, small_step).median());
    times.pipeline.milliseconds.push_back(time_calls(options.seconds, pipeline_step).median());
  }

  const double single_rate = 1e3 * static_cast<double>(options.batch) / times.single.median();
  const std::string threads = threads_text(options.threads);
  const std::string whole = fmt::format("batch {}", options.batch);
  ResultRow first = row_of(whole, threads, times.single, options.batch, single_rate);
  first.figures.push_back({"processor time", "ms", processor_ms(single_step)});
  ResultRow last = row_of(fmt::format("{} in {} micro-batches", whole, options.micro_batches),
                          fmt::format("{} stages × {}", options.stages, threads), times.pipeline,
                          options.batch, single_rate);
  last.figures.push_back({"processor time", "ms", processor_ms(pipeline_step)});
  const Bubble bubble = *pipeline.bubble();
  last.figures.push_back({"bubble", "", bubble.measured});
  last.figures.push_back({"(p−1)/(m+p−1)", "", bubble.formula});
  double batch_ms = 0;
  double micro_batches_ms = 0;
  for (const OperationCost& cost : measure_costs(step, one.devices.front(), options.micro_batches)) {
    batch_ms += 1e3 * cost.batch;
    micro_batches_ms += 1e3 * cost.micro_batches;
  }
  last.measured->limit_ms = batch_ms / static_cast<double>(options.stages);
  result.rows.push_back(first);
  result.rows.push_back(
      row_of(fmt::format("batch {}", micro_batch), threads, times.micro_batch, micro_batch, single_rate));
  result.rows.push_back(last);
  result.remarks.push_back(fmt::format(
      "The gradient's operations alone take {:.1f} ms over the whole batch with {}, and {:.1f} ms over the micro-batches. The limit of the pipeline is the former divided by the number of stages.",
      batch_ms, threads, micro_batches_ms));
  result.remarks.push_back(fmt::format("Stages begin at {}.", cut_text(pipeline.program())));
}

Result measure_pipeline(const PipelineOptions& options) {
  const MachineWatch watch;
  Result result{"pipeline",
                fmt::format("Training steps of {} by a pipeline", options.workload),
                {"step", "by"},
                {},
                "",
                0,
                {},
                {},
                "images per second"};
  add_pipeline_rows(result, options);
  watch.finish(result);
  return result;
}

}  // namespace telar::bench
