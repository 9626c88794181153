#include <fmt/ranges.h>

#include <chrono>

#include "telar/core/error.h"
#include "telar/data/streams/stream_batches.h"

// How a topic that was deleted and created again is recognised: by the last message before a position.

namespace telar {

namespace {

using MarkClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kMarkWait(100);
constexpr std::chrono::seconds kMarkWarning(10);
constexpr std::chrono::seconds kMarkPatience(5);  // of a training that pauses for a checkpoint

}  // namespace

std::optional<MessageMark> StreamBatches::mark_before(int partition, int64_t next,
                                                      const std::function<void()>& wait) const {
  if (log_->first(partition) >= next) return std::nullopt;
  log_->seek(partition, next - 1);
  std::optional<Message> message;
  while (!(message = log_->next(partition, kMarkWait))) {
    if (log_->awaited(partition) >= next) return std::nullopt;
    wait();
  }
  reading_[static_cast<size_t>(partition)] = message->offset + 1;
  return message->offset == next - 1 ? std::optional(mark_of(*message)) : std::nullopt;
}

Position StreamBatches::marked(const Position& position) const {
  StreamPosition place = place_of(position);
  const std::scoped_lock lock(mutex_);
  place.last.assign(place.next.size(), std::nullopt);
  const auto began = MarkClock::now();
  const auto wait = [&] {
    if (MarkClock::now() - began > kMarkPatience) throw run_error("they have not arrived");
  };
  try {
    if (const std::string trouble = log_->trouble(); !trouble.empty()) throw run_error("{}", trouble);
    for (int p = 0; p < partitions_; ++p)
      place.last[static_cast<size_t>(p)] = mark_before(p, place.next[static_cast<size_t>(p)], wait);
  } catch (const Error& error) {
    if (options_.warn)
      options_.warn(fmt::format(
          "topic '{}': its last messages cannot be read ({}), so the checkpoint cannot tell whether the topic was created again",
          log_->name(), error.what()));
  }
  return to_position(place, log_->name());
}

void StreamBatches::recognise(const Position& position) const {
  const StreamPosition place = place_of(position);
  const std::scoped_lock lock(mutex_);
  const auto began = MarkClock::now();
  bool warned = !options_.warn;
  int partition = 0;
  const auto wait = [&] {
    if (options_.stop_requested && options_.stop_requested()) throw ReadStopped();
    if (!warned && MarkClock::now() - began > kMarkWarning)
      options_.warn(waiting_for(fmt::format("partition {}", partition)));
    warned = warned || MarkClock::now() - began > kMarkWarning;
  };
  std::vector<int> missing;
  for (; partition < partitions_; ++partition) {
    const auto p = static_cast<size_t>(partition);
    if (!place.last[p]) continue;
    const std::optional<MessageMark> found = mark_before(partition, place.next[p], wait);
    if (!found) missing.push_back(partition);
    if (found && !agree(*found, *place.last[p]))
      throw user_error(
          "topic '{}', partition {}: offset {} is another message than the one that this run has seen, so the topic was deleted and created again; its messages cannot continue the run; start a new one",
          log_->name(), partition, place.next[p] - 1);
  }
  if (missing.empty() || !options_.warn) return;
  options_.warn(fmt::format(
      "topic '{}': it no longer has the last messages that this run has seen of {} {}, so whether it was created again cannot be told",
      log_->name(), missing.size() == 1 ? "partition" : "partitions", fmt::join(missing, ", ")));
}

}  // namespace telar
