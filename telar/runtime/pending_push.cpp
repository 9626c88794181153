#include "telar/runtime/pending_push.h"

namespace telar {

PendingPush::PendingPush(const Program& program, const StoreProgram& store, const StoreAccess& access,
                         const Device& device, const StateMemory& home)
    : program_(store),
      rounds_(program.cooperation.kind == Cooperation::Kind::rounds),
      access_(access),
      device_(device),
      home_(home),
      servers_(store, access.servers, program.parameters, home.arena, device) {}

void PendingPush::accrue_gradients() {
  accrued_ = device_.allocate(home_.arena.bytes, "gradients that are not pushed yet");
}

void PendingPush::add(const std::byte* gradients, int64_t samples) {
  samples_ += samples;
  ++batches_;
  if (accrued_ == nullptr) return;
  if (batches_ == 1) device_.zero(accrued_->data(), accrued_->size());
  device_.add(accrued_->data(), gradients, accrued_->size() / sizeof(float));
}

ServerExchange::Terms PendingPush::terms(float samples, bool then_pull, const StepInputs& inputs) const {
  ServerExchange::Terms terms;
  terms.samples = samples;
  terms.pull = then_pull;
  terms.learning_rate =
      static_cast<float>(program_.learning_rate.value_or(static_cast<double>(inputs.learning_rate)));
  terms.work = inputs.work;
  terms.push = true;
  if (rounds_) {
    terms.round = access_.next_round();
    terms.push = terms.round.has_value();
  }
  return terms;
}

void PendingPush::push_gradients(bool then_pull, const std::byte* gradients, const ServerExchange::Form& form,
                                 const StepInputs& inputs, StepResult& result) {
  // The mean of each batch counts as a separate gradient, as if each had been pushed.
  const float samples = static_cast<float>(samples_) / static_cast<float>(batches_);
  auto settings = terms(samples, then_pull, inputs);
  settings.form = form;
  const StoreReport report = servers_.push_gradients(accrued_ != nullptr ? accrued_->data() : gradients,
                                                     batches_, settings, home_.parameters->data());
  pushed(settings, report, result);
}

void PendingPush::push_differences(bool then_pull, const StepInputs& inputs, StepResult& result) {
  const auto settings = terms(static_cast<float>(samples_), then_pull, inputs);
  pushed(settings, servers_.push_differences(settings, home_.parameters->data()), result);
}

void PendingPush::pushed(const ServerExchange::Terms& terms, const StoreReport& report, StepResult& result) {
  samples_ = 0;
  batches_ = 0;
  result.fate = terms.push && !report.late ? StepResult::Fate::used : StepResult::Fate::dropped;
  result.finite = result.finite && report.finite;
  result.staleness = report.staleness;
  result.lost_updates = report.lost_updates;
}

}  // namespace telar
