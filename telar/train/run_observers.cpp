#include "telar/train/run_observers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "telar/core/error.h"
#include "telar/train/early_stopping.h"

namespace telar {

namespace fs = std::filesystem;

LogObserver::LogObserver(MetricsLog log, EventFiles events, std::vector<std::string> metrics, int64_t every,
                         std::function<void(const std::string&)> warn, const StreamPace* pace)
    : log_(std::move(log)),
      events_(std::move(events)),
      metrics_(std::move(metrics)),
      every_(every),
      warn_(std::move(warn)),
      pace_(pace) {}

void LogObserver::try_to(const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    if (!std::exchange(warned_, true))
      warn_(fmt::format("{}; the training continues, but its log lacks what could not be written",
                        error.what()));
  }
}

void LogObserver::write(const std::string& kind, const TrainingState& state, int64_t epoch,
                        const Values& values) {
  std::vector<MetricField> fields = {{"kind", kind},
                                     {"step", state.step},
                                     {"epoch", epoch},
                                     {"samples", state.samples},
                                     {"seconds", state.seconds}};
  for (const auto& [name, value] : values) {
    fields.emplace_back(name, value);
    add_events(kind + "/" + name, state, value);
  }
  try_to([&] { log_.append(fields); });
}

void LogObserver::add_events(const std::string& tag, const TrainingState& state, double value) {
  try_to([&] {
    if (events_.by_steps) events_.by_steps->add_scalar(tag, state.step, value);
    if (events_.by_samples) events_.by_samples->add_scalar(tag, state.samples, value);
  });
}

void LogObserver::for_events(const std::function<void(TensorBoardWriter&)>& action) {
  for (const auto& writer : {&events_.by_steps, &events_.by_samples})
    if (*writer) try_to([&] { action(**writer); });
}

void LogObserver::add_stream_values(const TrainingState& state, Values& values) const {
  if (state.evaluation && !state.evaluation->means.empty()) {
    const std::vector<double> windowed = state.evaluation->means.windowed();
    const std::vector<double> fading = state.evaluation->means.fading();
    for (size_t m = 0; m < metrics_.size(); ++m) {
      values.emplace_back("window_" + metrics_[m], windowed[m]);
      values.emplace_back("fading_" + metrics_[m], fading[m]);
    }
  }
  if (pace_ == nullptr) return;
  if (const auto lag = pace_->lag()) values.emplace_back("lag", static_cast<double>(*lag));
  if (const auto seconds = pace_->lag_seconds()) values.emplace_back("lag_seconds", *seconds);
}

void LogObserver::step_done(const StepReport& report, const TrainingState& state) {
  if (const DriftEvent* drift = report.drift) {
    const double factor = state.evaluation->rate_factor(state.step + StreamEvaluation::kStepsBegun + 1);
    write("drift", state, state.epoch + 1,
          {{"value", drift->value}, {"window", drift->window}, {"rate_factor", factor}});
  }
  if (state.step % every_ != 0) return;
  Values values;
  for (size_t m = 0; m < metrics_.size() && report.samples > 0; ++m)
    values.emplace_back(metrics_[m], report.sums[m] / static_cast<double>(report.samples));
  values.emplace_back("learning_rate", report.learning_rate);
  values.emplace_back("images_per_second", static_cast<double>(report.samples) / report.seconds);
  add_stream_values(state, values);
  write("step", state, state.epoch + 1, values);
}

void LogObserver::epoch_done(const EpochReport& report, const TrainingState& state) {
  std::vector<std::pair<std::string, double>> values;
  for (size_t m = 0; m < metrics_.size(); ++m) values.emplace_back("train_" + metrics_[m], report.train[m]);
  for (size_t m = 0; m < report.validation.size(); ++m) {
    values.emplace_back("validation_" + metrics_[m], report.validation[m]);
    const std::string warning = not_finite_warning(metrics_[m], report.validation[m], report.epoch);
    if (!warning.empty()) warn_(warning);
  }
  write("epoch", state, report.epoch + 1, values);
  for_events([](TensorBoardWriter& writer) { writer.flush(); });
}

void LogObserver::test_done(const std::vector<double>& means, const TrainingState& state) {
  std::vector<std::pair<std::string, double>> values;
  for (size_t m = 0; m < metrics_.size(); ++m) values.emplace_back(metrics_[m], means[m]);
  write("test", state, state.epoch, values);
}

void LogObserver::resumed(const std::vector<std::string>& changes, const TrainingState& state) {
  try_to([&] {
    log_.append({{"kind", "resume"},
                 {"step", state.step},
                 {"epoch", state.epoch + 1},
                 {"samples", state.samples},
                 {"seconds", state.seconds},
                 {"changes", fmt::format("{}", fmt::join(changes, "; "))}});
  });
}

void LogObserver::sync() {
  try_to([&] { log_.sync(); });
  for_events([](TensorBoardWriter& writer) { writer.sync(); });
}

void CheckpointTimes::epoch_done(const EpochReport& report, const TrainingState& state) {
  const bool by_epoch = policy_.every_epochs > 0 && (report.epoch + 1) % policy_.every_epochs == 0;
  const bool by_step = policy_.every_steps > 0 && state.step % policy_.every_steps == 0;
  if (by_epoch || by_step || (report.best && policy_.every_epochs > 0)) due(state);
}

CheckpointObserver::CheckpointObserver(fs::path folder, const Session& session, CheckpointPolicy policy,
                                       ExtraFiles files, std::function<void()> before, Processes* followers)
    : CheckpointTimes(policy),
      folder_(std::move(folder)),
      session_(session),
      files_(std::move(files)),
      before_(std::move(before)),
      followers_(followers) {}

fs::path CheckpointObserver::save(const TrainingState& state) {
  fs::path path = checkpoint_path(folder_, state.step);
  std::string written = is_checkpoint_of(path, state) ? "" : "written";
  if (followers_ != nullptr) followers_->broadcast(written);
  if (written.empty()) return path;
  before_();
  // The same step as that of another checkpoint, if a stop broke off the validation that ends its epoch.
  write_checkpoint(path, session_, state, files_, true);
  remove_old_checkpoints(folder_, policy().keep, state.best_step);
  return path;
}

void CheckpointFollower::follow() {
  std::string written;
  processes_.broadcast(written);
  if (!written.empty()) read_for_checkpoint(session_);
}

void EnergyObserver::epoch_began(const EpochStart& /*start*/, const TrainingState& /*state*/) {
  began_ = meter_.joules();
}

void EnergyObserver::step_done(const StepReport& report, const TrainingState& /*state*/) {
  if (report.last_of_epoch) stop();
}

void EnergyObserver::stop() {
  if (began_) joules_ += meter_.joules().value_or(*began_) - *began_;
  began_.reset();
}

std::optional<double> EnergyObserver::joules() {
  stop();  // for an epoch that was not finished
  return meter_.source().empty() ? std::nullopt : std::optional(joules_);
}

ProgressObserver::ProgressObserver(Progress& progress, const std::vector<std::string>& metrics,
                                   const StreamPace* pace, std::function<std::string()> more)
    : progress_(progress), pace_(pace), more_(std::move(more)) {
  const auto found = std::find(metrics.begin(), metrics.end(), "accuracy");
  if (found != metrics.end()) accuracy_ = static_cast<size_t>(found - metrics.begin());
}

std::optional<double> ProgressObserver::accuracy_of(const std::vector<double>& metrics) const {
  return accuracy_ ? std::optional(metrics[*accuracy_]) : std::nullopt;
}

void ProgressObserver::epoch_began(const EpochStart& start, const TrainingState& state) {
  progress_.begin_epoch(start.epoch + 1, start.epochs, start.samples, state.epoch_samples);
}

void ProgressObserver::step_done(const StepReport& report, const TrainingState& state) {
  if (report.drift != nullptr) progress_.message(drift_text(*report.drift, *state.evaluation));
  const bool evaluated = state.evaluation && !state.evaluation->means.empty();
  std::vector<double> means = evaluated ? state.evaluation->means.windowed() : state.epoch_sums;
  if (!evaluated)
    for (double& mean : means) mean /= static_cast<double>(std::max<int64_t>(1, state.epoch_samples));
  ProgressState shown{state.epoch_samples, means[0], accuracy_of(means)};
  shown.more = more_;
  if (pace_ != nullptr) {
    shown.behind = pace_->lag();
    shown.behind_seconds = pace_->lag_seconds();
  }
  progress_.update(shown);
}

void ProgressObserver::epoch_done(const EpochReport& report, const TrainingState& /*state*/) {
  EpochSummary summary{report.train[0], accuracy_of(report.train), std::nullopt, std::nullopt};
  if (more_) summary.more = more_();
  if (pace_ != nullptr) {
    summary.behind = pace_->lag();
    summary.behind_seconds = pace_->lag_seconds();
  }
  if (!report.validation.empty()) {
    summary.validation_loss = report.validation[0];
    summary.validation_accuracy = accuracy_of(report.validation);
  }
  progress_.end_epoch(summary);
}

}  // namespace telar
