#include "telar/runtime/gradient_exchange.h"

#include <algorithm>

namespace telar {

GradientExchange::GradientExchange(const Device& device, const Program& program, const FindGroup& group,
                                   SharedState& state, const StateMemory& home)
    : device_(device), group_(group(kAllWorkers)), state_(state), home_(home) {
  if (group_ != nullptr) groups_.push_back(group_);
  for (const Bucket& bucket : program.buckets) {
    of_bucket_.push_back(group(bucket.group));
    if (std::ranges::find(groups_, of_bucket_.back()) == groups_.end()) groups_.push_back(of_bucket_.back());
  }
  owned_ = find_owned_ranges();
  size_t bytes = home_.arena.bytes;
  const bool sums = group_ != nullptr && (program.micro_batches == 0 || !program.buckets.empty());
  if (sums) {
    if (apart()) bytes = largest_of_members(*group_, bytes);  // all members request the same size
    summed_ = group_->allocate(bytes);
  }
  if (sums && (device_.in_host_memory() || group_->sums_on_device())) {
    arena_ = summed_.data();
    return;
  }
  own_ = device_.allocate(bytes, "gradients");
  arena_ = own_->data();
  if (!summed_.empty()) pinned_ = device_.pin(summed_);
}

GradientExchange::Ranges GradientExchange::find_owned_ranges() const {
  if (apart()) return {{0, home_.arena.bytes}};
  return updates_parts() ? parts_of(home_.buckets, group_) : shards_of(home_.buckets, group_);
}

std::span<float> GradientExchange::summed_floats(size_t bucket) const {
  const auto [begin, end] = home_.buckets[bucket];
  return {reinterpret_cast<float*>(summed_.data() + begin), (end - begin) / sizeof(float)};
}

void GradientExchange::start(size_t bucket) {
  if (own_ == nullptr) return start_sum(bucket);
  const auto [begin, end] = home_.buckets[bucket];
  handed_over_.push_back(
      {bucket, device_.start_copy_out(arena_ + begin, summed_.subspan(begin, end - begin), true)});
  start_sums_that_arrived();
}

void GradientExchange::start_all() {
  for (size_t b = 0; b < of_bucket_.size(); ++b)
    if (has(b)) start(b);
}

void GradientExchange::start_sum(size_t bucket) {
  Group& group = *of_bucket_[bucket];
  updates_parts() ? group.start_reduce_to_parts(summed_floats(bucket))
                  : group.start_reduce_scatter(summed_floats(bucket));
  ++started_;
}

void GradientExchange::start_sums_that_arrived() {
  for (; !handed_over_.empty() && handed_over_.front().copy->done(); handed_over_.pop_front())
    start_sum(handed_over_.front().bucket);
}

void GradientExchange::poll() {
  start_sums_that_arrived();
  if (complete_ == started_) return;
  complete_ = 0;
  for (Group* group : groups_) complete_ += group->poll();
}

void GradientExchange::finish() {
  while (!handed_over_.empty()) {
    handed_over_.front().copy->wait();
    start_sums_that_arrived();
    group_->poll();
  }
  for (Group* group : groups_) group->finish();
  complete_ = started_;
  if (apart())
    for (size_t b = 0; b < of_bucket_.size(); ++b)
      if (has(b)) of_bucket_[b]->share_shards(summed_floats(b));
  if (own_ == nullptr) return;
  for (const auto& [begin, end] : owned_)
    device_.copy_in(summed_.subspan(begin, end - begin), arena_ + begin);
}

void GradientExchange::share_parts() {
  std::vector<std::span<float>> ranges;
  for (const auto& [begin, end] : home_.buckets) {
    auto* floats = reinterpret_cast<float*>(home_.parameters->data() + begin);
    ranges.emplace_back(floats, (end - begin) / sizeof(float));
  }
  group_->share_parts(ranges);
}

void GradientExchange::share_parameters() {
  if (apart()) return;    // each has updated its own
  device_.synchronise();  // others read what it has updated
  if (updates_parts()) share_parts();
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
