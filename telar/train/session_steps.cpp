#include "telar/train/session_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "telar/train/batch_view.h"

namespace telar {

namespace {

std::string text_of(const BatchTensor& tensor) {
  return fmt::format("'{}' ({}, {} for each sample)", tensor.name, name_of(tensor.dtype), tensor.shape.str());
}

std::string text_of(const std::vector<BatchTensor>& tensors) {
  std::string text;
  for (const BatchTensor& tensor : tensors) text += (text.empty() ? "" : ", ") + text_of(tensor);
  return text;
}

/// Throws Error (user) unless the source has exactly the tensors that the model takes.
void require_inputs(const Session& session, const BatchSource& source) {
  const std::vector<BatchTensor> wanted = session.inputs();
  const std::vector<BatchTensor>& given = source.tensors();
  const auto has = [](const std::vector<BatchTensor>& tensors, const BatchTensor& tensor) {
    return std::ranges::find(tensors, tensor) != tensors.end();
  };
  for (const BatchTensor& tensor : wanted) {
    if (!has(given, tensor))
      throw user_error("the model takes {}, but the batches have {}", text_of(tensor), text_of(given));
  }
  for (const BatchTensor& tensor : given) {
    if (!has(wanted, tensor))
      throw user_error("the batches have {}, which the model does not take; it takes {}", text_of(tensor),
                       text_of(wanted));
  }
}

}  // namespace

SessionSteps::SessionSteps(Session& session, const BatchSource& source, const SessionStepsOptions& options)
    : session_(session), source_(source), options_(options), loader_(source, options.loader) {
  require_inputs(session, source);
}

void SessionSteps::begin(const StepRange& range) {
  range_ = range;
  next_ = complete_ = range.first;
  draining_ = ended_ = false;
  const int64_t left = range.epoch.steps - range.first;
  const Position position = first_position();
  if (reading_ == position && unread_ == left) return;  // after a pause
  loader_.start(position, left);
  reading_ = position;
  unread_ = left;
}

/// The range's position. Without one, the range begins with the epoch, or at a step that the source can find.
Position SessionSteps::first_position() const {
  const auto epoch = static_cast<uint32_t>(range_.epoch.epoch);
  const bool stored = !range_.position.bytes.empty();
  if (!stored && range_.first == 0) return source_.begin(epoch);
  const std::optional<Position> found =
      source_.size(epoch) ? source_.find(epoch, range_.first) : std::nullopt;
  if (!stored && !found)
    throw user_error(
        "the source of the training samples cannot find step {} of epoch {}, and the state has no position",
        range_.first, epoch + 1);
  if (stored && found && *found != range_.position)
    throw user_error("the state's position is not that of step {} of epoch {}", range_.first, epoch + 1);
  return stored ? range_.position : *found;
}

std::vector<CompletedStep> SessionSteps::wait() {
  if (failed_) throw not_finite();
  if (follows()) begin_step();
  std::vector<CompletedStep> completed;
  while (!begun_.empty()) {
    std::optional<StepResult> result = result_of(begun_.front());
    if (!result) break;
    failed_ = !result->finite;
    if (failed_ && completed.empty()) throw not_finite();
    if (failed_) break;  // those before it are counted first
    Begun& step = begun_.front();
    completed.push_back({complete_++, step.inputs.samples, std::move(result->metrics), std::move(step.tested),
                         std::move(step.at), std::move(step.after), latency_since(step.arrived),
                         result->communication, result->phases});
    begun_.pop_front();
  }
  return completed;
}

std::optional<StepResult> SessionSteps::result_of(const Begun& step) {
  if (!step.empty) return session_.finished(!follows());
  StepResult nothing;
  nothing.metrics.resize(session_.metric_names().size());
  return nothing;
}

/// Null if there is no further one, or reading it was stopped.
const Batch* SessionSteps::next_batch() {
  try {
    return loader_.next();
  } catch (const ReadStopped&) {
    return nullptr;
  }
}

void SessionSteps::begin_step() {
  const auto start = std::chrono::steady_clock::now();
  const Batch* batch = next_batch();
  if (batch == nullptr) {
    ended_ = true;
    return;
  }
  reading_ = batch->after;
  --unread_;
  // All messages of a batch of a stream may be damaged. Every process sees that.
  const bool empty = batch->all_samples == 0 && batch->size() == 0;
  std::vector<double> tested;
  if (options_.tests_first && !empty) tested = session_.evaluate(view_of(*batch));
  const StepInputs inputs{rate_of_next(), range_.before + next_ + 1,
                          static_cast<uint32_t>(range_.epoch.epoch), batch->all_samples, start};
  if (!empty) session_.begin(view_of(*batch), inputs);
  begun_.push_back({inputs, batch->at, batch->after, batch->arrived, std::move(tested), empty});
  ++next_;
}

float SessionSteps::rate_of_next() const {
  const EpochStart& epoch = range_.epoch;
  const double rate = learning_rate_in_epoch(options_.schedule, epoch, next_);
  const StreamEvaluation* evaluation = options_.evaluation;
  const double factor = evaluation == nullptr ? 1 : evaluation->rate_factor(range_.before + next_ + 1);
  return static_cast<float>(rate * factor);
}

/// Repeats the first step that was not counted, with its batch, to find the layer where the value first
/// appears.
NotFinite SessionSteps::not_finite() {
  for (size_t later = 1; later < begun_.size(); ++later)
    if (!begun_[later].empty) session_.finished(true);
  const Begun step = begun_.front();
  begun_.clear();
  reading_.reset();
  loader_.start(step.at, 1);
  const std::string place = session_.find_non_finite(view_of(*loader_.next()), step.inputs);
  return NotFinite(fmt::format(
      "the loss is not finite at step {} (epoch {}); it was first seen in {}; try a lower learning rate than {} or clipping (training.clip_norm), or check the data",
      step.inputs.step, range_.epoch.epoch + 1, place, step.inputs.learning_rate));
}

}  // namespace telar
