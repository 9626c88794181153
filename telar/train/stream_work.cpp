#include "telar/train/stream_work.h"

#include <numeric>
#include <utility>

namespace telar {

namespace {

/// So many steps exist before a worker asks for them; the positions of more would only take memory.
constexpr int64_t kAhead = 64;

}  // namespace

void StreamWork::begin(const StepRange& range) {
  const bool endless = !stream_.size(0);
  const auto pass = endless ? 0 : static_cast<uint32_t>(range.epoch.epoch);
  Position at = range.position;
  if (at.bytes.empty()) at = stream_.skip(stream_.begin(pass), range.first);
  places_ = {{range.first, std::move(at)}};
  done_.clear();
  end_ = range.end;
  waiting_since_.reset();
}

std::vector<std::string> StreamWork::extend(int64_t unbegun, double now) {
  std::vector<std::string> found;
  const std::vector<int64_t> ends = stream_.known_ends(places_.rbegin()->second);
  existing_ = std::accumulate(ends.begin(), ends.end(), int64_t{0});
  while (places_.rbegin()->first < end_ && unbegun < kAhead) {
    const bool idle = unbegun == 0 && linger_ > 0;
    const bool close = idle && waiting_since_ && now - *waiting_since_ >= linger_;
    std::optional<Position> end = stream_.next_end(places_.rbegin()->second, ends, close);
    if (!end) break;
    found.push_back(end->bytes);
    places_.emplace(places_.rbegin()->first + 1, std::move(*end));
    waiting_since_.reset();
    ++unbegun;
  }
  const bool waits = stream_.behind(places_.rbegin()->second).value_or(0) > 0;
  if (!waits) waiting_since_.reset();
  if (waits && !waiting_since_) waiting_since_ = now;
  return found;
}

StreamWork::Place StreamWork::done(int64_t step) {
  Place place{places_.at(step), places_.at(step + 1)};
  done_.insert(step);
  while (done_.erase(places_.begin()->first) > 0) places_.erase(places_.begin());
  return place;
}

int64_t StreamWork::lag() const { return stream_.behind(position()).value_or(0); }

}  // namespace telar
