#include "telar/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>

#include "telar/core/clock.h"
#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/assignment.h"
#include "telar/data/dataset_batches.h"
#include "telar/data/loader.h"
#include "telar/train/batch_view.h"

namespace telar {

namespace {

using Clock = std::chrono::steady_clock;

/// A session has these two inputs for each sample.
void require_known_tensors(const BatchSource& source) {
  for (const BatchTensor& tensor : source.tensors()) {
    if (tensor.name != "x" && tensor.name != "label")
      throw user_error("the batches have a tensor '{}'; a session takes x and label", tensor.name);
  }
}

void add_to(std::vector<double>& sums, const std::vector<double>& more) {
  sums.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) sums[i] += more[i];
}

std::vector<double> divided(std::vector<double> sums, int64_t samples) {
  for (double& sum : sums) sum /= static_cast<double>(samples);
  return sums;
}

size_t index_of(const std::vector<std::string>& metrics, const std::string& metric) {
  const auto found = std::find(metrics.begin(), metrics.end(), metric);
  if (found == metrics.end()) {
    throw user_error("the metric for early stopping is '{}'; it must be {}", metric, one_of(metrics));
  }
  return static_cast<size_t>(found - metrics.begin());
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

/// The state of one pass over the training samples.
struct Trainer::Epoch {
  EpochStart start;
  const BatchSource& source;
  Loader& loader;
  const std::vector<TrainingObserver*>& observers;
  const std::function<bool()>& stop_requested;
  struct Begun {
    StepInputs inputs;
    Position after;
  };
  std::deque<Begun> begun = {};  ///< steps whose results are not available yet
  bool ended = false;            ///< the source has no further batch, now or in later epochs
};

Trainer::Trainer(Session& session, TrainerOptions options)
    : session_(session),
      options_(std::move(options)),
      deciding_metric_(index_of(session.metric_names(), options_.early_stopping.metric)) {
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
  return fit(DatasetBatches(train, assignment, options_.seed), validation, observers, stop_requested);
}

FitOutcome Trainer::fit(const BatchSource& train, const Dataset* validation,
                        const std::vector<TrainingObserver*>& observers,
                        const std::function<bool()>& stop_requested) {
  require_known_tensors(train);
  Loader loader(train, {.threads = options_.loader_threads, .prefetch = options_.prefetch});
  while (state_.epoch < options_.epochs && !state_.stopped_early) {
    Epoch epoch{start_of_epoch(train), train, loader, observers, stop_requested};
    for (TrainingObserver* observer : observers) observer->epoch_began(epoch.start, state_);
    const bool whole = remote_ == nullptr ? run_epoch(epoch) : run_remote_epoch(epoch);
    if (!whole) return FitOutcome::stopped;
    if (epoch.ended && state_.epoch_samples == 0) return FitOutcome::finished;
    const EpochReport report = finish_epoch(validation);
    if (train.size(static_cast<uint32_t>(report.epoch)))
      state_.position = {};  // the next pass has a beginning
    for (TrainingObserver* observer : observers) observer->epoch_done(report, state_);
    if (epoch.ended) return FitOutcome::finished;
    const bool more = state_.epoch < options_.epochs && !state_.stopped_early;
    if (more && stop_requested && stop_requested()) return FitOutcome::stopped;
  }
  return FitOutcome::finished;
}

EpochStart Trainer::start_of_epoch(const BatchSource& train) const {
  const std::optional<PassSize> size = train.size(static_cast<uint32_t>(state_.epoch));
  if (size) return {state_.epoch, options_.epochs, size->batches, size->samples};
  if (remote_ != nullptr)
    throw user_error(
        "parameter servers need training samples with a known number of batches; this source has none");
  if (options_.epoch_steps < 1) {
    throw user_error(
        "the source of the training samples has no known end, so the number of steps of an epoch must be given; it is {}",
        options_.epoch_steps);
  }
  return {state_.epoch, options_.epochs, options_.epoch_steps, options_.epoch_steps * options_.batch};
}

/// Where the next step begins: the state's position. A state without one is at the beginning of a pass, or at
/// a step that the source can find.
Position Trainer::next_position(const BatchSource& train) const {
  const auto epoch = static_cast<uint32_t>(state_.epoch);
  const bool stored = !state_.position.bytes.empty();
  if (!stored && state_.step_in_epoch == 0) return train.begin(epoch);
  const std::optional<Position> found =
      train.size(epoch) ? train.find(epoch, state_.step_in_epoch) : std::nullopt;
  if (!stored && !found)
    throw user_error(
        "the source of the training samples cannot find step {} of epoch {}, and the state has no position",
        state_.step_in_epoch, epoch + 1);
  if (stored && found && *found != state_.position)
    throw user_error("the state's position is not that of step {} of epoch {}", state_.step_in_epoch,
                     epoch + 1);
  return stored ? state_.position : *found;
}

/// Returns false if it was stopped before the last step. After the last step it lets the epoch finish first,
/// so that a step number always identifies one state. A source that ends before that ends the epoch.
bool Trainer::run_epoch(Epoch& epoch) {
  epoch.loader.start(next_position(epoch.source), epoch.start.steps - state_.step_in_epoch);
  auto start = Clock::now();
  while (const Batch* batch = epoch.loader.next()) {
    const auto ahead = static_cast<int64_t>(epoch.begun.size());
    const int64_t step = state_.step + ahead + 1;
    const StepInputs inputs{learning_rate_at(epoch, state_.step_in_epoch + ahead), step,
                            static_cast<uint32_t>(state_.epoch), batch->all_samples, start};
    session_.begin(view_of(*batch), inputs);
    epoch.begun.push_back({inputs, batch->after});
    // A checkpoint contains the state after its step, so no later step may have begun.
    const bool pauses = options_.pause_steps > 0 && step % options_.pause_steps == 0;
    const bool last = state_.step_in_epoch + ahead + 1 == epoch.start.steps;
    collect(epoch, pauses || last, start);
    if (!last && epoch.stop_requested && epoch.stop_requested()) {
      collect(epoch, true, start);
      return false;
    }
  }
  collect(epoch, true, start);
  epoch.ended = state_.step_in_epoch < epoch.start.steps;
  return true;
}

/// The schedule follows the epochs. Steps in total are another number once a resumed run has changed its
/// batch.
float Trainer::learning_rate_at(const Epoch& epoch, int64_t step_in_epoch) const {
  const int64_t number = epoch.start.epoch * epoch.start.steps + step_in_epoch + 1;
  return static_cast<float>(telar::learning_rate(options_.schedule, number));
}

/// Counts the completed steps of those begun; `all`: waits for all of them. `start`: the time when the
/// previous step was counted.
void Trainer::collect(Epoch& epoch, bool all, Clock::time_point& start) {
  while (!epoch.begun.empty()) {
    const std::optional<StepResult> result = session_.finished(all);
    if (!result) return;
    if (!result->finite) throw not_finite(epoch);
    const StepInputs inputs = epoch.begun.front().inputs;
    state_.position = epoch.begun.front().after;
    epoch.begun.pop_front();
    communication_.push_back(result->communication);
    if (result->phases) phases_.push_back(*result->phases);
    count(epoch, inputs.samples, result->metrics, inputs.learning_rate, seconds_since(start));
    start = Clock::now();
  }
}

/// Repeats the first step that was not counted, with its batch, to find the layer where the value first
/// appears.
Error Trainer::not_finite(Epoch& epoch) {
  const StepInputs inputs = epoch.begun.front().inputs;
  for (size_t later = 1; later < epoch.begun.size(); ++later) session_.finished(true);
  epoch.begun.clear();
  epoch.loader.start(next_position(epoch.source), 1);
  const std::string place = session_.find_non_finite(view_of(*epoch.loader.next()), inputs);
  return run_error(
      "the loss is not finite at step {} (epoch {}); it was first seen in {}; try a lower learning rate than {} or clipping (training.clip_norm), or check the data",
      inputs.step, state_.epoch + 1, place, inputs.learning_rate);
}

void Trainer::count(const Epoch& epoch, int64_t samples, const std::vector<double>& sums, float learning_rate,
                    double seconds) {
  step_seconds_.push_back(static_cast<float>(seconds));
  ++state_.step;
  ++state_.step_in_epoch;
  state_.samples += samples;
  state_.epoch_samples += samples;
  state_.seconds += seconds;
  add_to(state_.epoch_sums, sums);
  const StepReport report{samples, sums, learning_rate, seconds, state_.step_in_epoch == epoch.start.steps};
  for (TrainingObserver* observer : epoch.observers) observer->step_done(report, state_);
}

/// Like run_epoch(), but workers complete the steps, not always in order. For a checkpoint the steps pause:
/// the workers finish what they have begun, so the state is at a step boundary.
bool Trainer::run_remote_epoch(Epoch& epoch) {
  const int64_t before = state_.step - state_.step_in_epoch;
  while (true) {
    if (next_pause_ == 0) next_pause_ = after_pause();
    const bool stopping = make_remote_steps(epoch);
    remote_->fetch(session_);
    state_.step_in_epoch = remote_->steps_done();
    state_.position = {};  // of several workers: that of the step
    state_.step = before + state_.step_in_epoch;
    const bool whole = state_.step_in_epoch == epoch.start.steps;
    // After the last step the epoch is finished first; its own checkpoint has the same step number.
    if (!whole && !stopping)
      for (TrainingObserver* observer : epoch.observers) observer->paused(state_);
    if (!whole || (options_.pause_steps > 0 && state_.step % options_.pause_steps == 0))
      next_pause_ = after_pause();
    if (whole || stopping) return whole;
  }
}

int64_t Trainer::after_pause() const {
  if (options_.pause_steps <= 0) return std::numeric_limits<int64_t>::max();
  return (state_.step / options_.pause_steps + 1) * options_.pause_steps;
}

/// Runs up to the end of the epoch, the next pause, or a stop; returns true for a stop. The duration of a
/// step is the time since the previous one.
bool Trainer::make_remote_steps(const Epoch& epoch) {
  RemoteSteps& remote = *remote_;
  remote.begin_epoch(static_cast<uint32_t>(state_.epoch), state_.step_in_epoch, epoch.start.steps);
  bool pausing = false;
  bool stopping = false;
  auto start = Clock::now();
  for (bool more = true; more;) {
    more = !remote.epoch_finished();  // asked first: steps completed before this are in the next wait()
    for (const StepDone& step : remote.wait()) {
      count(epoch, step.samples, step.metrics, learning_rate_at(epoch, step.step), seconds_since(start));
      start = Clock::now();
    }
    if (!stopping && epoch.stop_requested && epoch.stop_requested()) {
      remote.drain(true);
      stopping = true;
    } else if (!stopping && !pausing && state_.step >= next_pause_) {
      remote.drain(false);
      pausing = true;
    }
  }
  return stopping;
}

EpochReport Trainer::finish_epoch(const Dataset* validation) {
  EpochReport report;
  report.epoch = state_.epoch;
  report.train = divided(state_.epoch_sums, state_.epoch_samples);
  if (validation != nullptr) {
    const auto start = Clock::now();
    report.validation = evaluate(*validation);
    report.validation_seconds = seconds_since(start);
    judge(report);
  }
  ++state_.epoch;
  state_.step_in_epoch = 0;
  state_.epoch_samples = 0;
  state_.epoch_sums.clear();
  return report;
}

void Trainer::judge(EpochReport& report) {
  const double value = report.validation[deciding_metric_];
  const bool lower_is_better = options_.early_stopping.metric == "loss";
  report.best = !state_.best || (lower_is_better ? value < *state_.best : value > *state_.best);
  if (report.best) {
    state_.best = value;
    state_.best_step = state_.step;
    state_.epochs_since_best = 0;
  } else {
    ++state_.epochs_since_best;
  }
  const int64_t patience = options_.early_stopping.patience;
  state_.stopped_early = patience > 0 && state_.epochs_since_best >= patience;
}

std::vector<double> Trainer::evaluate(const Dataset& data) const {
  const WholeBatch assignment(data.size(), options_.evaluation_batch, options_.part);
  const DatasetBatches batches(data, assignment, options_.seed);
  Loader loader(batches, {.threads = options_.loader_threads, .prefetch = options_.prefetch});
  loader.start(batches.begin(0));
  std::vector<double> sums(session_.metric_names().size());
  while (const Batch* batch = loader.next()) add_to(sums, session_.evaluate(view_of(*batch)));
  return divided(std::move(sums), data.size());
}

}  // namespace telar
