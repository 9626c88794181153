#include "telar/train/stream_work.h"

#include <algorithm>
#include <utility>

namespace telar {

namespace {

/// The positions of more steps than workers ask for would only take memory.
constexpr int64_t kAhead = 64;
constexpr double kStalled = 10;  // seconds

}  // namespace

StreamWork::StreamWork(const Stream& stream, double linger_seconds, int64_t at_once)
    : stream_(stream), linger_(linger_seconds), ahead_(std::max(kAhead, at_once)) {}

void StreamWork::begin(const StepRange& range) {
  const bool endless = !stream_.size(0);
  const auto pass = endless ? 0 : static_cast<uint32_t>(range.epoch.epoch);
  Position at = range.position;
  if (at.bytes.empty()) at = stream_.skip(stream_.begin(pass), range.first);
  const int64_t before = places_.empty() ? 0 : existing();
  places_ = {{range.first, std::move(at)}};
  done_.clear();
  end_ = range.end;
  waiting_since_.reset();
  idle_since_.reset();
  counted_ += before - existing();  // another pass begins at other messages, which have not come now
}

std::vector<std::string> StreamWork::extend(int64_t unbegun, double now) {
  std::vector<std::string> found;
  ends_ = stream_.known_ends(places_.rbegin()->second);
  now_ = now;
  while (places_.rbegin()->first < end_ && unbegun < ahead_) {
    const bool idle = unbegun == 0 && linger_ > 0;
    const bool close = idle && waiting_since_ && now - *waiting_since_ >= linger_;
    std::optional<Position> end = stream_.next_end(places_.rbegin()->second, ends_, close);
    if (!end) break;
    counted_ += messages_between(places_.rbegin()->second, *end);
    found.push_back(end->bytes);
    places_.emplace(places_.rbegin()->first + 1, std::move(*end));
    waiting_since_.reset();
    ++unbegun;
  }
  const bool waits = stream_.behind(places_.rbegin()->second).value_or(0) > 0;
  if (!waits) waiting_since_.reset();
  if (waits && !waiting_since_) waiting_since_ = now;
  const bool idle = places_.size() == 1 && places_.begin()->first < end_;
  if (!idle) idle_since_.reset();
  if (!idle) told_ = false;
  if (idle && !idle_since_) idle_since_ = now;
  return found;
}

std::optional<std::string> StreamWork::stalled() {
  if (!idle_since_ || now_ - *idle_since_ < kStalled || std::exchange(told_, true)) return std::nullopt;
  return stream_.awaited(position(), ends_);
}

StreamWork::Place StreamWork::done(int64_t step) {
  Place place{places_.at(step), places_.at(step + 1)};
  done_.insert(step);
  while (done_.erase(places_.begin()->first) > 0) places_.erase(places_.begin());
  return place;
}

int64_t StreamWork::messages_between(const Position& position, const Position& later) const {
  int64_t messages = 0;
  for (const UsedOffsets& range : stream_.between(position, later)) messages += range.end - range.first;
  return messages;
}

int64_t StreamWork::further() const {
  return ends_.empty() ? 0 : stream_.complete(places_.rbegin()->second, ends_);
}

int64_t StreamWork::lag() const {
  int64_t messages = messages_between(position(), places_.rbegin()->second) + further();
  for (const int64_t step : done_) messages -= messages_between(places_.at(step), places_.at(step + 1));
  return messages;
}

}  // namespace telar
