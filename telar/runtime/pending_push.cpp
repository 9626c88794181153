#include "telar/runtime/pending_push.h"

#include <algorithm>

namespace telar {

PendingPush::PendingPush(const Program& program, const std::vector<ScheduledAction>& schedule,
                         const StoreAccess& store, const Device& device, const StateMemory& home)
    : program_(*program.servers),
      rounds_(program.cooperation.kind == Cooperation::Kind::rounds),
      store_(store),
      device_(device),
      home_(home),
      servers_(program_, store.servers, program.parameters, home.arena, device) {
  const bool accrues = std::any_of(schedule.begin(), schedule.end(), [](const ScheduledAction& scheduled) {
    return scheduled.action == Action::push_gradient && scheduled.every > 1;
  });
  if (accrues) accrued_ = device.allocate(home.arena.bytes, "gradients that are not pushed yet");
}

void PendingPush::add(const std::byte* gradients, int64_t samples) {
  samples_ += samples;
  ++batches_;
  if (accrued_ == nullptr) return;
  if (batches_ == 1) device_.zero(accrued_->data(), accrued_->size());
  device_.add(accrued_->data(), gradients, accrued_->size() / sizeof(float));
}

void PendingPush::push(Action action, bool then_pull, const std::byte* gradients, const StepInputs& inputs,
                       StepResult& result) {
  ServerExchange::Terms terms;
  terms.pull = then_pull;
  terms.learning_rate =
      static_cast<float>(program_.learning_rate.value_or(static_cast<double>(inputs.learning_rate)));
  terms.push = true;
  if (rounds_) {
    terms.round = store_.next_round();
    terms.push = terms.round.has_value();
  }
  StoreReport report;
  if (action == Action::push_difference) {
    terms.samples = static_cast<float>(samples_);
    report = servers_.push_differences(terms, home_.parameters->data());
  } else {
    // The mean of each batch counts as a separate gradient, as if each had been pushed.
    terms.samples = static_cast<float>(samples_) / static_cast<float>(batches_);
    report = servers_.push_gradients(accrued_ != nullptr ? accrued_->data() : gradients, batches_, terms,
                                     home_.parameters->data());
  }
  samples_ = 0;
  batches_ = 0;
  result.fate = terms.push && !report.late ? StepResult::Fate::used : StepResult::Fate::dropped;
  result.finite = result.finite && report.finite;
  result.staleness = report.staleness;
  result.lost_updates = report.lost_updates;
}

}  // namespace telar
