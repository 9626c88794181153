#include "telar/train/run_figures.h"

#include <algorithm>
#include <numeric>

#include "telar/core/median.h"
#include "telar/observe/process.h"
#include "telar/train/job_strategy.h"
#include "telar/train/job_workers.h"

namespace telar {

namespace {

/// Waits for all processes.
uint64_t peak_memory_of(Processes* processes) {
  const uint64_t mine = peak_memory_bytes();
  if (processes == nullptr) return mine;
  uint64_t sum = 0;
  for (const std::string& text : processes->gather(std::to_string(mine))) sum += std::stoull(text);
  return sum;
}

}  // namespace

std::string why_ended(const TrainingJob& training, FitOutcome outcome, const TrainingState& state) {
  if (outcome == FitOutcome::stopped) return fmt::format("stopped on request in epoch {}", state.epoch + 1);
  if (!state.stopped_early) return fmt::format("all {} epochs are done", state.epoch);
  return fmt::format(
      "early stopping after {} of {} epochs: the validation {} has not improved for {} epochs (training.early_stopping.patience is {}); the best was after step {}",
      state.epoch, training.epochs, training.early_stopping_metric, state.epochs_since_best,
      training.early_stopping_patience, state.best_step);
}

void add_figures(RunSummary& summary, const RunFigures& of) {
  const auto& [job, session, trainer, profile, processes] = of;
  const StepTimes& times = trainer.times();
  const std::vector<float>& steps = times.kept_seconds();
  const auto average_batch = static_cast<double>(trainer.state().samples) /
                             static_cast<double>(std::max<int64_t>(1, trainer.state().step));
  if (times.seconds() > 0)
    summary.images_per_second = average_batch * static_cast<double>(times.steps()) / times.seconds();
  summary.step_ms_median = steps.empty() ? 0 : 1e3 * median_of(steps);
  std::vector<CommunicationTime> communication = times.communication();
  if (processes != nullptr) compare_over(*processes, communication);
  // The host does not wait for NCCL, so it cannot measure the time that NCCL takes.
  const bool seen = !uses_servers(job) && !session.exchanges_by_nccl();
  if (seen && job_workers(job, processes) > 1)
    summary.communication = parts_of(communication, std::accumulate(steps.begin(), steps.end(), double{0}));
  if (profile != nullptr)
    summary.phases = profile->phases(times.phases(), times.communication(), communication);
  summary.figures = trainer.figures();
  summary.seconds = trainer.state().seconds;
  summary.evaluation = trainer.state().evaluation;
  summary.epochs = trainer.state().epoch;
  summary.steps = trainer.state().step;
  summary.stopped_early = trainer.state().stopped_early;
  summary.why = why_ended(job.training, summary.outcome, trainer.state());
  summary.strategy = session.strategy();
  summary.replicas =
      uses_servers(job) ? static_cast<int>(workers_of(job.strategy).count) : session.replicas();
  summary.bubble = session.bubble();
  summary.mixed_speed = session.mixed_speed();
  summary.nccl = session.exchanges_by_nccl();
  summary.devices = session.device_names();
  summary.peak_memory_bytes = peak_memory_of(processes);
  const SessionMemory memory = session.memory();
  summary.parameter_bytes = memory.parameter_bytes;
  summary.gradient_bytes = memory.gradient_bytes;
  summary.optimizer_bytes = memory.optimizer_bytes;
  summary.activation_bytes = memory.activation_bytes;
  summary.seed = job.training.seed;
}

}  // namespace telar
