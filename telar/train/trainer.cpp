#include "telar/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "telar/core/clock.h"
#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/assignment.h"
#include "telar/data/dataset_batches.h"
#include "telar/data/loader.h"
#include "telar/train/batch_view.h"
#include "telar/train/session_steps.h"

namespace telar {

namespace {

using Clock = std::chrono::steady_clock;

void add_to(std::vector<double>& sums, const std::vector<double>& more) {
  sums.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) sums[i] += more[i];
}

/// Where the value of the deciding metric is among those of all figures.
size_t place_of(const Figures& figures, const std::string& metric) {
  size_t place = 0;
  for (const Figure& figure : figures.all()) {
    if (figure.name == metric) return place;
    place += static_cast<size_t>(figure.shape.elements());
  }
  throw user_error("the metric for early stopping is '{}'; it must be {}", metric, one_of(figures.numbers()));
}

TrainerOptions with_figures(TrainerOptions options, const Session& session) {
  if (!options.figures) options.figures.emplace(session.metric_names());
  return options;
}

void check(const TrainerOptions& options) {
  if (options.epochs < 1)
    throw user_error("the number of epochs is {}; it must be at least 1", options.epochs);
  if (options.batch < 1 || options.evaluation_batch < 1) {
    throw user_error("the batch is {} for training and {} for evaluation; both must be at least 1",
                     options.batch, options.evaluation_batch);
  }
  if (options.early_stopping.patience < 0) {
    throw user_error("the patience of early stopping is {}; it must be at least 0",
                     options.early_stopping.patience);
  }
}

}  // namespace

/// What an epoch is made with.
struct Trainer::Epoch {
  EpochStart start;
  StepSource& steps;
  const std::vector<TrainingObserver*>& observers;
  const std::function<bool()>& stop_requested;
  bool ended = false;  ///< the source has no further batch, now or in later epochs
};

Trainer::Trainer(Session& session, TrainerOptions options)
    : session_(session),
      options_(with_figures(std::move(options), session)),
      deciding_metric_(place_of(*options_.figures, options_.early_stopping.metric)) {
  check(options_);
}

void Trainer::restore(TrainingState state) {
  if (options_.shuffle && state.step_in_epoch > 0 && state.order_version != kOrderVersion) {
    throw user_error(
        "the state is one of step {} of an epoch whose samples another version of telar shuffled (order {}; this is {}); continue from the end of an epoch",
        state.step_in_epoch, state.order_version, kOrderVersion);
  }
  state_ = std::move(state);
  state_.order_version = kOrderVersion;
}

FitOutcome Trainer::fit(const Dataset& train, const Dataset* validation,
                        const std::vector<TrainingObserver*>& observers,
                        const std::function<bool()>& stop_requested) {
  const FixedSlice assignment(train.size(), options_.batch, options_.seed, options_.shuffle, options_.part,
                              options_.together);
  const DatasetBatches batches(train, assignment, options_.seed);
  if (validation == nullptr) return fit(batches, nullptr, observers, stop_requested);
  const WholeBatch whole(validation->size(), options_.evaluation_batch, options_.part);
  const DatasetBatches validating(*validation, whole, options_.seed);
  return fit(batches, &validating, observers, stop_requested);
}

FitOutcome Trainer::fit(const BatchSource& train, const BatchSource* validation,
                        const std::vector<TrainingObserver*>& observers,
                        const std::function<bool()>& stop_requested) {
  std::optional<SessionSteps> own;
  if (options_.evaluation && !state_.evaluation) state_.evaluation.emplace();
  if (others_ == nullptr) {
    own.emplace(session_, train,
                SessionStepsOptions{options_.schedule,
                                    {options_.loader_threads, options_.prefetch},
                                    options_.evaluation && options_.evaluation->separate_pass,
                                    state_.evaluation ? &*state_.evaluation : nullptr});
  } else {
    check_others();
  }
  while (state_.epoch < options_.epochs && !state_.stopped_early) {
    if (state_.step_in_epoch == 0 && train.size(static_cast<uint32_t>(state_.epoch)))
      state_.position = {};  // a pass has a beginning; until then, the end of the one before is kept
    Epoch epoch{start_of_epoch(train), own ? *own : *others_, observers, stop_requested};
    for (TrainingObserver* observer : observers) observer->epoch_began(epoch.start, state_);
    if (!run_epoch(epoch)) return FitOutcome::stopped;
    if (epoch.ended && state_.epoch_samples == 0) return FitOutcome::finished;
    if (state_.epoch_samples == 0 && train.size(static_cast<uint32_t>(state_.epoch)))
      throw user_error(
          "epoch {} has no samples to train on: all of them are damaged and were left out; see the warnings",
          state_.epoch + 1);
    const std::optional<EpochReport> report = finish_epoch(epoch.start.steps, validation, stop_requested);
    if (!report) return FitOutcome::stopped;
    for (TrainingObserver* observer : observers) observer->epoch_done(*report, state_);
    if (epoch.ended) return FitOutcome::finished;
    const bool more = state_.epoch < options_.epochs && !state_.stopped_early;
    if (more && stop_requested && stop_requested()) return FitOutcome::stopped;
  }
  return FitOutcome::finished;
}

void Trainer::check_others() const {
  if (options_.pause_requested)
    throw user_error(
        "with parameter servers, the training pauses after numbers of steps, not on request: workers may wait for samples");
  if (plateau_schedule() != nullptr)
    throw user_error(
        "with parameter servers, the workers take the learning rate from the step alone, so it cannot follow the validation");
  if (!options_.evaluation) return;
  if (options_.evaluation->separate_pass)
    throw user_error(
        "with parameter servers, the workers report the losses and accuracies of their training steps; they make no separate evaluation pass");
  if (options_.evaluation->drift && options_.evaluation->drift->factor != 1)
    throw user_error(
        "with parameter servers, the workers take the learning rate from the schedule; a drift cannot raise it");
}

const PlateauSchedule* Trainer::plateau_schedule() const {
  return std::get_if<PlateauSchedule>(&options_.schedule.shape);
}

EpochStart Trainer::start_of_epoch(const BatchSource& train) const {
  const std::optional<PassSize> size = train.size(static_cast<uint32_t>(state_.epoch));
  double factor = 1;
  if (const PlateauSchedule* rule = plateau_schedule(); rule != nullptr && state_.plateau)
    factor = std::max(state_.plateau->factor, std::min(1.0, rule->minimum / options_.schedule.base));
  if (size) return {state_.epoch, options_.epochs, size->batches, size->samples, factor};
  if (options_.epoch_steps < 1) {
    throw user_error(
        "the source of the training samples has no known end, so the number of steps of an epoch must be given; it is {}",
        options_.epoch_steps);
  }
  return {state_.epoch, options_.epochs, options_.epoch_steps, options_.epoch_steps * options_.batch, factor};
}

/// Returns false if it was stopped before the last step. After the last step it lets the epoch finish first,
/// so that a step number always identifies one state. A source that ends before that ends the epoch.
bool Trainer::run_epoch(Epoch& epoch) {
  const int64_t before = state_.step - state_.step_in_epoch;
  while (state_.step_in_epoch < epoch.start.steps) {
    const int64_t end = next_pause(epoch.start);
    epoch.steps.begin({epoch.start, state_.step_in_epoch, end, before, state_.position});
    const StepsEnd made = make_steps(epoch);
    state_.updates = epoch.steps.fetch(session_);
    if (auto losses = epoch.steps.losses()) state_.losses = std::move(losses);
    state_.step_in_epoch = epoch.steps.steps_done();
    state_.step = before + state_.step_in_epoch;
    if (Position position = epoch.steps.position(); !position.bytes.empty())
      state_.position = std::move(position);
    if (state_.step_in_epoch == epoch.start.steps) break;
    if (made == StepsEnd::stopped) return false;
    if (state_.step_in_epoch < end && made == StepsEnd::all) {
      epoch.ended = true;
      return true;
    }
    for (TrainingObserver* observer : epoch.observers) observer->paused(state_);
  }
  return true;
}

/// The step of the epoch before which the training pauses next, or the end of the epoch.
int64_t Trainer::next_pause(const EpochStart& epoch) const {
  if (options_.pause_steps <= 0) return epoch.steps;
  const int64_t until = options_.pause_steps - state_.step % options_.pause_steps;
  return std::min(epoch.steps, state_.step_in_epoch + until);
}

/// Makes the steps of a range, or those before a pause or a stop. The duration of a step is the time since
/// the previous one.
Trainer::StepsEnd Trainer::make_steps(Epoch& epoch) {
  StepsEnd ending = StepsEnd::all;
  auto start = Clock::now();
  for (bool more = true; more;) {
    more = !epoch.steps.finished();  // asked first: steps completed before this are in the next wait()
    for (const CompletedStep& step : epoch.steps.wait()) {
      count(epoch, step, seconds_since(start));
      start = Clock::now();
    }
    const bool last = state_.step_in_epoch == epoch.start.steps;
    if (ending != StepsEnd::all || last) continue;
    if (epoch.stop_requested && epoch.stop_requested()) {
      ending = StepsEnd::stopped;
    } else if (options_.pause_requested && options_.pause_requested()) {
      ending = StepsEnd::paused;
    }
    if (ending != StepsEnd::all) epoch.steps.drain();
  }
  return ending;
}

void Trainer::count(const Epoch& epoch, const CompletedStep& step, double seconds) {
  times_.add(seconds, step.communication, step.phases ? &*step.phases : nullptr);
  ++state_.step;
  ++state_.step_in_epoch;
  state_.position = step.after;
  state_.samples += step.samples;
  if (options_.left_out) state_.left_out += options_.left_out(step);
  state_.epoch_samples += step.samples;
  state_.seconds += seconds;
  add_to(state_.epoch_sums, step.metrics);
  double rate = learning_rate_in_epoch(options_.schedule, epoch.start, step.step);
  if (state_.evaluation) rate *= state_.evaluation->rate_factor(state_.step);
  const StepReport report{step.samples,
                          step.metrics,
                          rate,
                          seconds,
                          state_.step_in_epoch == epoch.start.steps,
                          step.step,
                          step.at,
                          step.after,
                          step.latency,
                          add_to_evaluation(step),
                          state_.step <= told_steps_};
  told_steps_ = std::max(told_steps_, state_.step);
  for (TrainingObserver* observer : epoch.observers) observer->step_done(report, state_);
}

/// The drift that is detected with a step; null if there is none.
const DriftEvent* Trainer::add_to_evaluation(const CompletedStep& step) {
  if (!options_.evaluation || step.samples == 0) return nullptr;
  StreamEvaluation& evaluation = *state_.evaluation;
  const std::vector<double>& sums = options_.evaluation->separate_pass ? step.tested : step.metrics;
  const bool drift = evaluation.add(*options_.evaluation, sums, step.samples, state_.step, state_.samples);
  return drift ? &evaluation.drifts.back() : nullptr;
}

/// Returns none, and leaves the epoch unfinished, if a stop breaks off the validation.
std::optional<EpochReport> Trainer::finish_epoch(int64_t steps, const BatchSource* validation,
                                                 const std::function<bool()>& stop_requested) {
  EpochReport report;
  report.epoch = state_.epoch;
  report.train = figures_of(state_.epoch_sums, state_.epoch_samples);
  if (validation != nullptr) {
    const auto start = Clock::now();
    std::optional<std::vector<double>> means = evaluate(*validation, stop_requested);
    if (!means) return std::nullopt;
    report.validation = std::move(*means);
    report.validation_seconds = seconds_since(start);
    const double value = report.validation[deciding_metric_];
    report.best = judge_epoch(value, options_.early_stopping, state_);
    const PlateauSchedule* plateau = plateau_schedule();
    const double base = options_.schedule.base;
    const bool warm = (state_.epoch + 1) * steps >= options_.schedule.warmup_steps;
    if (plateau != nullptr && warm &&
        judge_plateau(value, options_.early_stopping.metric, *plateau, base, state_))
      report.lowered_rate = base * state_.plateau->factor;
  }
  ++state_.epoch;
  report.again = state_.epoch <= told_epochs_;
  told_epochs_ = std::max(told_epochs_, state_.epoch);
  state_.step_in_epoch = 0;
  state_.epoch_samples = 0;
  state_.epoch_sums.clear();
  return report;
}

/// Without samples, the sums are zeros.
std::vector<double> Trainer::figures_of(std::vector<double> sums, int64_t samples) const {
  sums.resize(session_.metric_names().size());
  return options_.figures->of(sums, samples);
}

std::optional<std::vector<double>> Trainer::evaluate(const Dataset& data,
                                                     const std::function<bool()>& stop_requested) const {
  const WholeBatch assignment(data.size(), options_.evaluation_batch, options_.part);
  return evaluate(DatasetBatches(data, assignment, options_.seed), stop_requested);
}

std::optional<std::vector<double>> Trainer::evaluate(const BatchSource& source,
                                                     const std::function<bool()>& stop_requested) const {
  const std::optional<PassSize> size = source.size(0);
  if (!size) throw user_error("samples without a known end cannot be evaluated as a whole");
  Loader loader(source, {.threads = options_.loader_threads, .prefetch = options_.prefetch});
  loader.start(source.begin(0));
  std::vector<double> sums(session_.metric_names().size());
  while (const Batch* batch = loader.next()) {
    if (stop_requested && stop_requested()) return std::nullopt;
    add_to(sums, session_.evaluate(view_of(*batch)));
  }
  return figures_of(std::move(sums), size->samples);
}

}  // namespace telar
