#include "telar/runtime/gradient_exchange.h"

namespace telar {

GradientExchange::GradientExchange(const Device& device, Group* group, SharedState& state)
    : device_(device),
      group_(group),
      state_(state),
      home_(state.memory_of(device)),
      arena_(state.gradients.data()),
      owned_(find_owned_ranges()) {
  if (state.gradients.size() > 0) return;
  const size_t bytes = home_.arena.bytes;
  if (group_ != nullptr) summed_ = group_->allocate(bytes);
  if (group_ != nullptr && (device_.in_host_memory() || group_->sums_on_device())) {
    arena_ = summed_.data();
    return;
  }
  own_ = device_.allocate(bytes, "gradients");
  arena_ = own_->data();
  if (!summed_.empty()) pinned_ = device_.pin(summed_);
}

GradientExchange::Ranges GradientExchange::find_owned_ranges() const {
  Ranges ranges;
  for (const auto& [begin, end] : state_.buckets) {
    const size_t count = (end - begin) / sizeof(float);
    const auto [from, to] = group_ == nullptr ? std::pair<size_t, size_t>{0, count} : group_->shard(count);
    if (from < to) ranges.emplace_back(begin + from * sizeof(float), begin + to * sizeof(float));
  }
  return ranges;
}

void GradientExchange::start(size_t bucket) {
  const auto [begin, end] = state_.buckets[bucket];
  if (own_ == nullptr) return start_sum(begin, end);
  handed_over_.push_back(
      {begin, end, device_.start_copy_out(arena_ + begin, summed_.subspan(begin, end - begin), true)});
  start_sums_that_arrived();
}

void GradientExchange::start_sum(size_t begin, size_t end) {
  group_->start_reduce_scatter(
      {reinterpret_cast<float*>(summed_.data() + begin), (end - begin) / sizeof(float)});
  ++started_;
}

void GradientExchange::start_sums_that_arrived() {
  for (; !handed_over_.empty() && handed_over_.front().copy->done(); handed_over_.pop_front())
    start_sum(handed_over_.front().begin, handed_over_.front().end);
}

void GradientExchange::poll() {
  start_sums_that_arrived();
  if (complete_ < started_) complete_ = group_->poll();
}

void GradientExchange::finish() {
  while (!handed_over_.empty()) {
    handed_over_.front().copy->wait();
    start_sums_that_arrived();
    group_->poll();
  }
  group_->finish();
  complete_ = started_;
  if (own_ == nullptr) return;
  for (const auto& [begin, end] : owned_)
    device_.copy_in(summed_.subspan(begin, end - begin), arena_ + begin);
}

void GradientExchange::share_parameters() {
  device_.synchronise();  // others read what it has updated
  std::byte* staging = state_.staging();
  std::byte* parameters = home_.parameters->data();
  const bool staged = staging != nullptr && staging != parameters && !group_->sums_on_device();
  if (staged) {
    for (const auto& [begin, end] : owned_)
      device_.copy_out(parameters + begin, {staging + begin, end - begin});
  }
  group_->barrier();
  if (staging == nullptr || group_->sums_on_device()) return;
  if (staged) device_.copy_in({staging, home_.arena.bytes}, parameters);
  group_->barrier();
}

}  // namespace telar
