#include "telar/bench/train_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "telar/bench/environments.h"
#include "telar/bench/machine_watch.h"
#include "telar/bench/row_limits.h"
#include "telar/core/error.h"
#include "telar/data/source.h"
#include "telar/io/atomic_file.h"
#include "telar/io/disk.h"
#include "telar/io/temporary_folder.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"
#include "telar/train/pipeline.h"

namespace telar::bench {

namespace {

namespace fs = std::filesystem;

constexpr size_t kWarmUp = 3;

/// Milliseconds of all steps except the first few, which compile and warm up.
std::vector<double> step_times(const TrainingCurve& curve) {
  std::vector<double> times;
  for (size_t s = std::min(kWarmUp, curve.steps.size()); s < curve.steps.size(); ++s) {
    const double before = s == 0 ? 0 : curve.steps[s - 1].seconds;
    times.push_back(1e3 * (curve.steps[s].seconds - before));
  }
  return times;
}

/// Floating-point operations of one training step, forward and backward.
double operations_of(const Job& job, const SampleSpec& spec) {
  const Program program = job_program(job, spec, nullptr, Costs::estimated);
  const Graph& graph = program.gradient_graph();
  double operations = 0;
  for (const Node& node : graph.nodes()) {
    operations += 2 * static_cast<double>(node.op->multiply_adds(graph.input_types(node),
                                                                 graph.output_types(node), node.attributes));
  }
  return operations;
}

/// The accuracy on the training samples over time: the mean over each twentieth of the steps, to smooth
/// single batches.
Curve accuracy_curve(const std::string& name, const TrainingCurve& curve) {
  constexpr size_t kPoints = 20;
  const size_t window = std::max<size_t>(1, curve.steps.size() / kPoints);
  Curve line{name, {}};
  for (size_t begin = 0; begin + window <= curve.steps.size(); begin += window) {
    double sum = 0;
    for (size_t s = begin; s < begin + window; ++s) sum += curve.steps[s].accuracy.value_or(0);
    line.points.emplace_back(curve.steps[begin + window - 1].seconds, sum / static_cast<double>(window));
  }
  return line;
}

Curve validation_curve(const std::string& name, const TrainingCurve& curve) {
  Curve line{name, {}};
  for (const CurvePoint& epoch : curve.epochs)
    if (epoch.accuracy) line.points.emplace_back(epoch.seconds, *epoch.accuracy);
  return line;
}

class TrainSweep {
 public:
  explicit TrainSweep(const TrainSweepOptions& options) : options_(options), job_(sweep_job_text(options)) {
    Job job = parse_job(job_, "the job", options.settings);
    training_ = job.training;
    const DatasetPtr samples = open_datasets(job.data, static_cast<uint64_t>(job.training.seed)).train;
    samples_ = static_cast<double>(samples->size() * training_.epochs);
    operations_ = operations_of(job, samples->spec());
    by_winograd_ = job.training.convolution == "winograd";
    for (const std::string& name : options.environments) environments_.push_back(environment_of(name));
  }

  Result measure() {
    Result result{"train", title(), {"precision", "environment"}, {}, {}, 0, {}, {}, "images/s", {}};
    std::vector<int> threads;
    for (const std::string& precision : options_.precisions) {
      for (const TrainingEnvironment& environment : environments_) {
        if (stopping()) break;
        ResultRow row = measure(precision, environment);
        if (stopping()) break;  // its training is not complete
        result.rows.push_back(std::move(row));
        threads.push_back(environment.on_gpus ? 0 : environment.threads);
      }
    }
    compare_rows(result.rows, threads);
    add_charts(result);
    finish(result);
    return result;
  }

 private:
  bool stopping() const { return options_.stop_requested && options_.stop_requested(); }
  void say(const std::string& text) const {
    if (options_.say) options_.say(text);
  }

  std::string title() const {
    return fmt::format("Training of {} on {}, {} samples a step, {}", options_.model, options_.data,
                       training_.batch,
                       options_.steps > 0 ? fmt::format("{} steps", options_.steps)
                                          : fmt::format("{} epochs", training_.epochs));
  }

  ResultRow measure(const std::string& precision, const TrainingEnvironment& environment) {
    const std::vector<std::string> setting = {precision, environment.name};
    if (!environment.impossible.empty()) return {setting, std::nullopt, environment.impossible};
    if (precision == "tf32" && environment.threads > 0)
      return {setting, std::nullopt, "CPUs do not support TF32"};
    const std::string name = precision + " " + environment.name;
    say("measuring " + name);
    std::optional<TemporaryFolder> temporary;  // the run of a large model takes hundreds of megabytes
    const fs::path base = options_.folder.empty() ? temporary.emplace("telar-bench").path() : options_.folder;
    const std::string file = fmt::format("{}-{}", precision, environment.name);
    make_folder(base);
    write_file(base / "job.yaml", job_);
    TrainingStart start{options_.program, base / "job.yaml",     options_.settings,
                        base / file,      environment.processes, {}};
    // A GPU that measures each operation waits after each of them, so phases are measured on CPUs only.
    if (!environment.on_gpus) start.options.emplace_back("--profile");
    start.settings.push_back("training.precision=" + precision);
    start.settings.insert(start.settings.end(), environment.settings.begin(), environment.settings.end());
    const TrainingRun run = run_training(start, watch(name));
    if (run.end == TrainingRun::End::failed) return {setting, std::nullopt, run.failure};
    curves_.emplace_back(name, run.curve);
    ResultRow row = training_row(setting, run, training_.batch);
    // The limit is unknown for several GPUs, and for a GPU together with the CPU.
    if (row.measured && !by_winograd_ && (!environment.on_gpus || environment.gpu)) {
      row.measured->operations = operations_;
      limits_.set(*row.measured, {environment.threads, environment.gpu, {}},
                  {precision == "bf16" ? DType::bf16 : DType::f32, precision == "tf32"});
    }
    return row;
  }

  /// Reports once how long a row will take, if that is long.
  TrainingWatch watch(const std::string& name) const {
    TrainingWatch watch;
    watch.stop_requested = options_.stop_requested;
    watch.progress = [this, name, reported = false](const CurvePoint& newest) mutable {
      constexpr double kEarly = 3;
      constexpr double kLong = 30;
      if (reported || newest.seconds < kEarly || newest.samples <= 0) return;
      reported = true;
      const double all = samples_ * newest.seconds / newest.samples;
      if (all > kLong) say(fmt::format("{} will train for about {:.0f} s", name, all));
    };
    return watch;
  }

  void add_charts(Result& result) const {
    const auto add = [&](const std::string& chart, size_t least, const auto& curve_of) {
      Chart drawn{chart, {"training", "s"}, {"accuracy", ""}, {}};
      for (const auto& [name, curve] : curves_) {
        Curve line = curve_of(name, curve);
        if (line.points.size() >= least) drawn.curves.push_back(std::move(line));
      }
      if (!drawn.curves.empty()) result.charts.push_back(std::move(drawn));
    };
    add("Accuracy of the training samples over time", 2, accuracy_curve);
    add("Accuracy after each epoch", 2, validation_curve);
  }

  void finish(Result& result) const {
    if (stopping())
      result.remarks.emplace_back(
          "The experiment was stopped before its end; only the rows measured until then are shown.");
    result.remarks.emplace_back(
        "Phases are means over all steps and replicas, without the first three steps, and add up to the mean step. exposed: communication that computation does not hide. wait: for slower replicas or stages.");
    result.remarks.emplace_back(
        "Speed-up is relative to the first measured row; efficiency is per thread, relative to the first row with the same precision. The limit counts only the products and convolutions of a step, at the rate of the fastest product.");
    for (std::string& remark : limits_.remarks()) result.remarks.push_back(std::move(remark));
    machine_.finish(result);
    result.environment.entries.emplace_back("seed", std::to_string(training_.seed));
  }

  const TrainSweepOptions& options_;
  MachineWatch machine_;
  std::string job_;
  TrainingJob training_;
  double samples_ = 0;        ///< samples that a row trains on
  double operations_ = 0;     ///< per step
  bool by_winograd_ = false;  ///< Winograd computes fewer operations, so the limit does not apply
  std::vector<TrainingEnvironment> environments_;
  std::vector<std::pair<std::string, TrainingCurve>> curves_;
  RowLimits limits_;
};

}  // namespace

std::string sweep_job_text(const TrainSweepOptions& options) {
  std::string data = fmt::format("source: {}", options.data);
  if (options.steps > 0) {
    data += fmt::format(", {}: {}, validation: 0", source_type(options.data).generated ? "samples" : "limit",
                        options.steps * options.batch);
  }
  return fmt::format(
      "name: bench_train\n"
      "model: {{name: {}}}\n"
      "data: {{{}}}\n"
      "optimizer: {{name: sgd, momentum: 0.9, learning_rate: 0.02}}\n"
      "training: {{epochs: {}, batch: {}}}\n"
      "output: {{checkpoint_epochs: 0, tensorboard: false}}\n",
      options.model, data, options.steps > 0 ? 1 : options.epochs, options.batch);
}

ResultRow training_row(std::vector<std::string> setting, const TrainingRun& run, int64_t batch) {
  ResultRow row{std::move(setting), std::nullopt, {}, {}};
  Measured measured;
  measured.times.milliseconds = step_times(run.curve);
  if (measured.times.milliseconds.empty()) {
    row.impossible =
        fmt::format("{} steps were made; at least {} are needed", run.curve.steps.size(), kWarmUp + 1);
    return row;
  }
  const double median = measured.times.median();
  const auto add = [&](const char* name, const char* unit, std::optional<double> value) {
    row.figures.push_back({name, unit, value});
  };
  const auto scaled = [&](const char* name, double factor) {
    const std::optional<double> value = run.figure(name);
    return value ? std::optional(factor * *value) : std::nullopt;
  };
  add("images/s", "", 1e3 * static_cast<double>(batch) / median);
  for (const auto& [name, phase] : {std::pair{"load", "load"},
                                    {"copy", "copy"},
                                    {"forward", "forward"},
                                    {"backward", "backward"},
                                    {"exposed", "exchange"},
                                    {"wait", "wait"},
                                    {"update", "update"},
                                    {"other", "other"}})
    add(name, "ms", run.figure(fmt::format("phases/mean_ms/{}", phase)));
  std::optional<double> accuracy = run.figure("test_accuracy");
  add("accuracy", "", accuracy ? accuracy : run.figure("validation_accuracy"));
  add("peak memory", "MB", scaled("peak_memory_bytes", 1e-6));
  const double samples = run.curve.steps.back().samples;
  add("energy", "J", run.figure("joules"));
  add("energy/image", "J", scaled("joules", 1 / samples));
  row.measured = std::move(measured);
  return row;
}

void compare_rows(std::vector<ResultRow>& rows, const std::vector<int>& threads) {
  const auto step = [&](size_t r) { return rows[r].measured->times.median(); };
  std::optional<size_t> first;
  std::map<std::string, size_t> first_of;  // by precision
  for (size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].measured) continue;
    if (!first) first = r;
    const size_t alike = first_of.emplace(rows[r].setting[0], r).first->second;
    std::optional<double> efficiency;  // per thread, so a GPU has none
    if (threads[r] > 0 && threads[alike] > 0)
      efficiency = step(alike) / step(r) * static_cast<double>(threads[alike]) / threads[r];
    const auto place = rows[r].figures.begin() + 1;  // after the images per second
    rows[r].figures.insert(place, {{"speed-up", "", step(*first) / step(r)}, {"efficiency", "", efficiency}});
  }
}

Result measure_training(const TrainSweepOptions& options) { return TrainSweep(options).measure(); }

}  // namespace telar::bench
