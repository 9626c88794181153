#include "telar/comm/store/store_tenure.h"

#include <algorithm>
#include <utility>

#include "telar/comm/store/random_id.h"
#include "telar/core/error.h"

namespace telar {

uint64_t StoreTenure::begin(bool taken) {
  std::unique_lock lock(mutex_);
  if (!taken && present_ == 0) return 0;
  if (present_ != 0) former_.insert(present_);
  present_ = 0;
  while (taken && (present_ == 0 || former_.contains(present_))) present_ = random_id();
  const uint64_t begun = present_;
  const auto foreign = [begun](const Stream* stream) { return stream->tenure_ != begun; };
  for (const Stream* stream : streams_)
    if (foreign(stream)) stream->cancel_();
  changed_.wait(lock, [&] { return std::ranges::none_of(streams_, foreign); });
  return begun;
}

void StoreTenure::require(uint64_t tenure) const {
  const std::lock_guard lock(mutex_);
  require_locked(tenure);
}

void StoreTenure::require_locked(uint64_t tenure) const {
  if (tenure == present_) return;
  if (former_.contains(tenure))
    throw user_error("another coordinator of this run has taken this server over since then");
  if (tenure == 0)
    throw user_error("a coordinator has taken this server over, and only members of its run may use it");
  throw user_error(
      "this server does not hold the parameters that the run has written: it was started anew since then, or is another one");
}

StoreTenure::Stream::Stream(StoreTenure& owner, uint64_t tenure, std::function<void()> cancel)
    : owner_(owner), tenure_(tenure), cancel_(std::move(cancel)) {
  const std::lock_guard lock(owner_.mutex_);
  owner_.require_locked(tenure);
  place_ = owner_.streams_.insert(owner_.streams_.end(), this);
}

StoreTenure::Stream::~Stream() {
  const std::lock_guard lock(owner_.mutex_);
  owner_.streams_.erase(place_);
  owner_.changed_.notify_all();
}

}  // namespace telar
