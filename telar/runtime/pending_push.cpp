#include "telar/runtime/pending_push.h"

#include <algorithm>

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
  device_.zero(accrued_->data(), accrued_->size());
}

void PendingPush::add(const std::byte* gradients, int64_t samples) {
  samples_ += samples;
  of_part_ += samples;
  if (accrued_ == nullptr || samples == 0) return;
  ++means_;
  device_.add(accrued_->data(), gradients, accrued_->size() / sizeof(float),
              1.0F / static_cast<float>(samples));
}

ServerExchange::Terms PendingPush::terms(float samples, bool then_pull, const StepInputs& inputs) const {
  ServerExchange::Terms terms;
  terms.samples = samples;
  terms.pull = then_pull;
  terms.learning_rate =
      static_cast<float>(program_.learning_rate.value_or(static_cast<double>(inputs.learning_rate)));
  terms.work = inputs.work;
  terms.push = true;
  return terms;
}

template <typename Keep>
bool PendingPush::enters_round(ServerExchange::Terms& terms, const StepInputs& inputs, const Keep& keep,
                               StepResult& result) {
  if (!rounds_) return true;
  terms.round = inputs.more_parts ? std::nullopt : access_.next_round(inputs.work);
  if (terms.round && !terms.round->members.empty()) return true;
  if (terms.round) {  // the update is made without this worker
    servers_.drop_kept();
    clear();
    result.fate = StepResult::Fate::used;
    return false;
  }
  keep();
  of_part_ = 0;
  result.fate = StepResult::Fate::pending;
  return false;
}

bool PendingPush::push_gradients(bool then_pull, const std::byte* gradients, const ServerExchange::Form& form,
                                 const StepInputs& inputs, StepResult& result) {
  // The mean of each batch that was accrued counts as a separate gradient, as if each had been pushed. In
  // rounds, none is: the batches are parts of one, whose sums are kept.
  const bool accrued = accrued_ != nullptr;
  const auto samples = static_cast<float>(accrued ? std::min<int64_t>(means_, 1) : samples_);
  auto settings = terms(samples, then_pull, inputs);
  settings.form = form;
  settings.keeps_if_late = true;
  if (!enters_round(
          settings, inputs, [&] { servers_.keep_gradients(gradients); }, result))
    return true;
  const StoreReport report =
      servers_.push_gradients(accrued ? accrued_->data() : gradients, std::max<int64_t>(means_, 1), settings,
                              home_.parameters->data());
  pushed(report, result);
  return then_pull;
}

bool PendingPush::push_differences(bool then_pull, const StepInputs& inputs, StepResult& result) {
  auto settings = terms(static_cast<float>(samples_), then_pull, inputs);
  const auto own = static_cast<float>(of_part_);
  std::byte* parameters = home_.parameters->data();
  if (!enters_round(
          settings, inputs, [&] { servers_.keep_differences(own, parameters); }, result))
    return true;
  pushed(servers_.push_differences(own, settings, parameters), result);
  return then_pull;
}

void PendingPush::clear() {
  samples_ = means_ = of_part_ = 0;
  if (accrued_ != nullptr) device_.zero(accrued_->data(), accrued_->size());
}

void PendingPush::pushed(const StoreReport& report, StepResult& result) {
  clear();
  result.fate = report.late ? StepResult::Fate::dropped : StepResult::Fate::used;
  result.finite = result.finite && report.finite;
  result.staleness = report.staleness;
  result.lost_updates = report.lost_updates;
}

}  // namespace telar
