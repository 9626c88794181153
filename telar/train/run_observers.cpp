#include "telar/train/run_observers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "telar/core/error.h"
#include "telar/train/early_stopping.h"

namespace telar {

namespace fs = std::filesystem;

LogObserver::LogObserver(MetricsLog log, EventFiles events, Figures figures, int64_t every,
                         std::function<void(const std::string&)> warn, const StreamPace* pace)
    : log_(std::move(log)),
      events_(std::move(events)),
      figures_(std::move(figures)),
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

/// Lists and matrices go to `lists`, and from lists each value to the event files.
void LogObserver::add_figures(const std::string& prefix, const std::vector<double>& of, Values& values,
                              std::vector<MetricField>* lists) const {
  figures_.for_each(of, [&](const Figure& figure, std::span<const double> numbers) {
    const std::string name = prefix + figure.name;
    if (figure.shape.rank() == 0) {
      values.emplace_back(name, numbers[0]);
    } else if (lists != nullptr && figure.shape.rank() == 1) {
      lists->emplace_back(name, std::vector<double>(numbers.begin(), numbers.end()));
    } else if (lists != nullptr) {
      lists->emplace_back(name, rows_of(figure, numbers));
    }
  });
}

void LogObserver::write(const std::string& kind, const TrainingState& state, int64_t epoch,
                        const Values& values, const std::vector<MetricField>& lists) {
  std::vector<MetricField> fields = {{"kind", kind},
                                     {"step", state.step},
                                     {"epoch", epoch},
                                     {"samples", state.samples},
                                     {"seconds", state.seconds}};
  for (const auto& [name, value] : values) {
    fields.emplace_back(name, value);
    add_events(kind + "/" + name, state, value);
  }
  for (const MetricField& field : lists) {
    fields.push_back(field);
    const auto* list = std::get_if<std::vector<double>>(&field.second);
    for (size_t i = 0; list != nullptr && i < list->size(); ++i)
      add_events(fmt::format("{}/{}/{}", kind, field.first, i), state, (*list)[i]);
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
    Values windowed;
    Values fading;
    add_figures("window_", figures_.of(state.evaluation->means.windowed(), 1), windowed);
    add_figures("fading_", figures_.of(state.evaluation->means.fading(), 1), fading);
    for (size_t m = 0; m < windowed.size(); ++m) values.insert(values.end(), {windowed[m], fading[m]});
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
  if (report.again || state.step % every_ != 0) return;
  Values values;
  if (report.samples > 0) add_figures("", figures_.of(report.sums, report.samples), values);
  values.emplace_back("learning_rate", report.learning_rate);
  values.emplace_back("images_per_second", static_cast<double>(report.samples) / report.seconds);
  add_stream_values(state, values);
  write("step", state, state.epoch + 1, values);
}

void LogObserver::epoch_done(const EpochReport& report, const TrainingState& state) {
  if (report.again) return;
  Values values;
  std::vector<MetricField> lists;
  add_figures("train_", report.train, values, &lists);
  if (!report.validation.empty()) {
    add_figures("validation_", report.validation, values, &lists);
    figures_.for_each(report.validation, [&](const Figure& figure, std::span<const double> numbers) {
      if (figure.shape.rank() > 0) return;
      const std::string warning = not_finite_warning(figure.name, numbers[0], report.epoch);
      if (!warning.empty()) warn_(warning);
    });
  }
  write("epoch", state, report.epoch + 1, values, lists);
  for_events([](TensorBoardWriter& writer) { writer.flush(); });
}

void LogObserver::test_done(const std::vector<double>& of, const TrainingState& state) {
  Values values;
  std::vector<MetricField> lists;
  add_figures("", of, values, &lists);
  write("test", state, state.epoch, values, lists);
}

void LogObserver::write_event(const std::string& kind, const TrainingState& state,
                              std::vector<MetricField> fields) {
  fields.insert(fields.begin(), {{"kind", kind},
                                 {"step", state.step},
                                 {"epoch", state.epoch + 1},
                                 {"samples", state.samples},
                                 {"seconds", state.seconds}});
  try_to([&] { log_.append(fields); });
}

void LogObserver::resumed(const std::vector<std::string>& changes, const TrainingState& state) {
  write_event("resume", state, {{"changes", fmt::format("{}", fmt::join(changes, "; "))}});
}

void LogObserver::changed(const std::string& lost, const std::string& come, int processes, int before,
                          int64_t steps_again, const TrainingState& state) {
  std::vector<MetricField> fields = {{"lost", lost}, {"come", come}, {"processes", int64_t{processes}}};
  if (before > 0) fields.emplace_back("processes_before", int64_t{before});
  fields.emplace_back("steps_again", steps_again);
  write_event("recovery", state, std::move(fields));
}

void LogObserver::sync() {
  try_to([&] { log_.sync(); });
  for_events([](TensorBoardWriter& writer) { writer.sync(); });
}

void EnergyObserver::epoch_began(const EpochStart& /*start*/, const TrainingState& /*state*/) {
  stop();  // of an epoch whose steps are begun again
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

ProgressObserver::ProgressObserver(Progress& progress, Figures figures, const StreamPace* pace,
                                   std::function<std::string()> more)
    : progress_(progress), figures_(std::move(figures)), pace_(pace), more_(std::move(more)) {}

std::optional<double> ProgressObserver::accuracy_of(const std::vector<double>& values) const {
  std::optional<double> accuracy;
  figures_.for_each(values, [&](const Figure& figure, std::span<const double> numbers) {
    if (figure.name == "accuracy") accuracy = numbers[0];
  });
  return accuracy;
}

void ProgressObserver::epoch_began(const EpochStart& start, const TrainingState& state) {
  progress_.begin_epoch(start.epoch + 1, start.epochs, start.samples, state.epoch_samples);
}

void ProgressObserver::step_done(const StepReport& report, const TrainingState& state) {
  if (report.drift != nullptr) progress_.message(drift_text(*report.drift, *state.evaluation));
  const bool evaluated = state.evaluation && !state.evaluation->means.empty();
  const std::vector<double> values = evaluated ? figures_.of(state.evaluation->means.windowed(), 1)
                                               : figures_.of(state.epoch_sums, state.epoch_samples);
  ProgressState shown{state.epoch_samples, values[0], accuracy_of(values)};
  shown.more = more_;
  if (pace_ != nullptr) {
    shown.behind = pace_->lag();
    shown.behind_seconds = pace_->lag_seconds();
  }
  progress_.update(shown);
}

void ProgressObserver::epoch_done(const EpochReport& report, const TrainingState& /*state*/) {
  if (report.again) return;
  EpochSummary summary{report.train[0], accuracy_of(report.train), std::nullopt, std::nullopt};
  if (more_) summary.more = more_();
  summary.lowered_rate = report.lowered_rate;
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
