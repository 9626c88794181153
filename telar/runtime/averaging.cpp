#include "telar/runtime/averaging.h"

namespace telar {

namespace {

/// to = scale · from, f32.
void copy_scaled(const Device& device, std::byte* to, const std::byte* from, size_t bytes, float scale) {
  device.zero(to, bytes);
  device.add(to, from, bytes / sizeof(float), scale);
}

}  // namespace

void average_parameters(StepContext& context) {
  Group* group = context.group();
  if (group == nullptr) return;
  const Device& device = context.device();
  std::byte* parameters = context.home().parameters->data();
  std::byte* sums = context.gradients().arena();
  const auto workers = static_cast<float>(group->size());
  for (const auto& [begin, end] : context.home().buckets)
    copy_scaled(device, sums + begin, parameters + begin, end - begin, 1);
  device.synchronise();
  context.communicating("starts sums", [&] { context.gradients().start_all(); });
  context.finish_sums();
  for (const auto& [begin, end] : context.home().buckets)
    copy_scaled(device, parameters + begin, sums + begin, end - begin, 1 / workers);
  // Others may still read this worker's sums.
  context.communicating("barrier", [&] { sum_over_members(*group, 0); });
  context.did(StepPhase::update, "average");
}

void ParameterView::show_mean(StepContext& context) {
  if (own_ != nullptr) return;
  const size_t bytes = context.home().arena.bytes;
  own_ = context.device().allocate(bytes, "parameters of a worker");
  copy_scaled(context.device(), own_->data(), context.home().parameters->data(), bytes, 1);
  average_parameters(context);
}

void ParameterView::show_own(StepContext& context) {
  if (own_ == nullptr) return;
  copy_scaled(context.device(), context.home().parameters->data(), own_->data(), context.home().arena.bytes,
              1);
  context.device().synchronise();
  own_.reset();
}

}  // namespace telar
