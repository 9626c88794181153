#include "telar/cli/run_ending.h"

#include <iostream>

#include "telar/cli/options.h"
#include "telar/cli/phase_text.h"
#include "telar/data/files.h"
#include "telar/data/source.h"
#include "telar/io/atomic_file.h"
#include "telar/train/shared_task.h"

namespace telar::cli {

namespace {

/// Whether the CPU made the step of the GPUs faster.
std::string mixed_text(const MixedSpeed& speed) {
  const double ratio = speed.together / speed.gpus_alone;
  return fmt::format(
      "CPU and GPUs: {:.2f} ms a step together; by their measured speed, the GPUs alone would take about {:.2f} ms: {}\n",
      1e3 * speed.together, 1e3 * speed.gpus_alone,
      ratio > 1 ? fmt::format("the CPU does not help, a step takes {:.2f} times as long with it", ratio)
                : fmt::format("with the CPU a step takes {:.2f} of that", ratio));
}

/// Of the stream's new samples.
std::string evaluation_text(const Figures& figures, const StreamEvaluation& evaluation) {
  if (evaluation.means.empty()) return "";
  std::string text = "window: " + metrics_text(figures, figures.of(evaluation.means.windowed(), 1)) + "\n";
  if (evaluation.drift_count > 0)
    text += fmt::format("drifts: {}, the last after step {}\n", evaluation.drift_count,
                        evaluation.drifts.back().step);
  return text;
}

std::string ending(const RunSummary& summary) {
  if (summary.nothing_to_do) {
    return fmt::format("nothing to do in {}: {}; to train longer, add --set {}=N\ncheckpoint: {}\n",
                       summary.folder, summary.why,
                       summary.stopped_early ? "training.early_stopping.patience" : "training.epochs",
                       summary.checkpoint);
  }
  if (!summary.figures) return "";  // stopped before its first step
  std::string text = summary.stopped_early ? summary.why + "\n" : "";
  text += fmt::format(
      "{} epochs, {} steps, {:.1f} s of training, {:.0f} samples/s, {:.2f} ms a step (median)\n",
      summary.epochs, summary.steps, summary.seconds, summary.images_per_second, summary.step_ms_median);
  if (summary.communication) {
    text += fmt::format(
        "communication: {:.1f} % of a step within the backward pass, {:.1f} % after it, {:.1f} % waiting for the slowest replica\n",
        100 * summary.communication->within_gradient, 100 * summary.communication->exposed,
        100 * summary.communication->waiting);
  }
  if (summary.mixed_speed) text += mixed_text(*summary.mixed_speed);
  if (summary.staleness > 0) {
    text += fmt::format("staleness: {:.2f} updates by others between a worker's pull and its push (mean)\n",
                        summary.staleness);
  }
  if (summary.latency.count() > 0)
    text +=
        fmt::format("latency: {:.0f} ms from a message's arrival to its update (median), {:.0f} ms (99 %)\n",
                    1e3 * summary.latency.quantile(0.5), 1e3 * summary.latency.quantile(0.99));
  if (summary.losses) text += losses_text(*summary.losses);
  if (summary.phases) text += "\n" + phase_text(*summary.phases);
  if (!summary.trace.empty())
    text += fmt::format("trace: {} (for chrome://tracing or https://ui.perfetto.dev)\n", summary.trace);
  if (summary.evaluation) text += evaluation_text(*summary.figures, *summary.evaluation);
  if (!summary.test.empty()) text += "test: " + metrics_text(*summary.figures, summary.test) + "\n";
  return text + fmt::format("checkpoint: {}\n", summary.checkpoint);
}

/// The summary as JSON; of a run that had ended before, the one in its folder.
std::string summary_text(const RunSummary& summary) {
  if (!summary.nothing_to_do) return to_json(summary);
  const Bytes bytes = read_file(summary.folder + "/summary.json");
  return {bytes.begin(), bytes.end()};
}

}  // namespace

ProgressOptions progress_of(const Job& job, bool quiet) {
  ProgressOptions options = progress_options(1, quiet);
  options.unit = source_type(job.data.source).unit;
  return options;
}

void say_ended(const RunSummary& summary, const std::string& file, bool quiet) {
  if (!file.empty()) write_file(file, summary_text(summary));
  if (!quiet) std::cout << ending(summary) << std::flush;
  if (summary.outcome == FitOutcome::stopped && !quiet) {
    std::cout << (summary.folder.empty()
                      ? "stopped before the run began; the same command starts it again"
                      : fmt::format("stopped; resume with: telar train {} --resume", summary.folder))
              << std::endl;
  }
  // Also with --quiet: the exit code does not tell.
  if (const std::string warning = warning_of(summary); !warning.empty())
    std::cerr << "warning: " << warning << std::endl;
}

void end_with_newcomers(const RunSummary& summary, ElasticProcesses* elastic) {
  if (elastic != nullptr && summary.outcome == FitOutcome::finished && !summary.not_stored.empty())
    elastic->abort(exit_code_of(summary, 0, elastic), summary.not_stored);
}

}  // namespace telar::cli
