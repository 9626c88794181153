#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "telar/core/error.h"
#include "telar/data/streams/message_log.h"

namespace telar::test {

/// A topic in memory, to which messages can be added at any time, with gaps. It counts seeks.
class MemoryTopic {
 public:
  explicit MemoryTopic(size_t partitions) : partitions_(partitions), markers_(partitions) {}

  void add(size_t partition, std::string message, int64_t gap = 0) {
    const std::scoped_lock lock(mutex_);
    auto& messages = partitions_[partition];
    messages[end_of(partition) + gap] = std::move(message);
  }

  /// Ends the partition with an offset without a message, as a transaction does.
  void add_marker(size_t partition) {
    const std::scoped_lock lock(mutex_);
    markers_[partition] = end_of(partition) + 1;
  }

  size_t partitions() const { return partitions_.size(); }
  OffsetRange range(size_t partition) const {
    const std::scoped_lock lock(mutex_);
    const auto& messages = partitions_[partition];
    return messages.empty() ? OffsetRange{} : OffsetRange{messages.begin()->first, end_of(partition)};
  }
  /// Deletes the messages before this offset.
  void forget(size_t partition, int64_t offset) {
    const std::scoped_lock lock(mutex_);
    auto& messages = partitions_[partition];
    messages.erase(messages.begin(), messages.lower_bound(offset));
  }
  /// The first message from the offset on; false if there is none.
  bool find(size_t partition, int64_t offset, int64_t& found, std::string& message) const {
    const std::scoped_lock lock(mutex_);
    const auto at = partitions_[partition].lower_bound(offset);
    if (at == partitions_[partition].end()) return false;
    found = at->first;
    message = at->second;
    return true;
  }

  int64_t created = 1'000'000;  ///< a message's time is this and its offset
  int added = 0;                ///< partitions, since the log was opened
  bool keyed = false;           ///< a message has a key, "k" and its offset
  bool nulls = false;           ///< an empty message has no value
  bool answers_times = true;    ///< false: the offset for any time is 0, as Tansu 0.6 answers
  std::atomic<int64_t> seeks = 0;
  std::vector<int64_t> used;  ///< what tell_used() was told last
  std::string trouble;        ///< MessageLog::trouble()

 private:
  int64_t end_of(size_t partition) const {
    const auto& messages = partitions_[partition];
    return std::max(markers_[partition], messages.empty() ? 0 : messages.rbegin()->first + 1);
  }

  mutable std::mutex mutex_;
  std::vector<std::map<int64_t, std::string>> partitions_;
  std::vector<int64_t> markers_;  ///< the offsets behind them
};

class MemoryLog final : public MessageLog {
 public:
  explicit MemoryLog(MemoryTopic& topic)
      : topic_(topic), next_(topic.partitions()), messages_(topic.partitions()), keys_(topic.partitions()) {}

  const std::string& name() const override { return name_; }
  int partitions() const override { return static_cast<int>(next_.size()); }
  int partitions_now() override { return partitions() + topic_.added; }
  std::vector<OffsetRange> ranges() override {
    std::vector<OffsetRange> ranges;
    for (size_t p = 0; p < next_.size(); ++p) ranges.push_back(topic_.range(p));
    return ranges;
  }
  int64_t first(int partition) override { return topic_.range(static_cast<size_t>(partition)).first; }
  std::vector<std::optional<int64_t>> since(int64_t time) override {
    std::vector<std::optional<int64_t>> offsets(next_.size());
    for (size_t p = 0; p < next_.size(); ++p) {
      int64_t found = 0;
      std::string message;
      const int64_t first = topic_.answers_times ? std::max<int64_t>(0, time - topic_.created) : 0;
      if (topic_.find(p, first, found, message)) offsets[p] = found;
    }
    return offsets;
  }
  void seek(int partition, int64_t offset) override {
    ++topic_.seeks;
    next_[static_cast<size_t>(partition)] = offset;
  }
  std::optional<Message> next(int partition, std::chrono::milliseconds wait) override {
    const auto p = static_cast<size_t>(partition);
    const auto until = std::chrono::steady_clock::now() + wait;
    int64_t offset = 0;
    int64_t end = topic_.range(p).end;
    while (!topic_.find(p, next_[p], offset, messages_[p])) {
      if (std::chrono::steady_clock::now() >= until) {
        next_[p] = std::max(next_[p], end);
        return std::nullopt;
      }
      end = topic_.range(p).end;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    next_[p] = offset + 1;
    keys_[p] = "k" + std::to_string(offset);
    Message message{offset, messages_[p], topic_.created + offset};
    if (topic_.keyed) message.key = keys_[p];
    message.null = topic_.nulls && messages_[p].empty();
    return message;
  }
  int64_t awaited(int partition) const override { return next_[static_cast<size_t>(partition)]; }
  std::optional<int64_t> behind(int partition, int64_t offset) const override {
    return std::max<int64_t>(0, topic_.range(static_cast<size_t>(partition)).end - offset);
  }
  void tell_used(const std::vector<int64_t>& next) override { topic_.used = next; }
  std::vector<std::optional<int64_t>> told_used() override {
    std::vector<std::optional<int64_t>> told(topic_.used.begin(), topic_.used.end());
    told.resize(next_.size());
    return told;
  }
  std::string trouble() const override { return topic_.trouble; }

 private:
  MemoryTopic& topic_;
  std::string name_ = "events";
  std::vector<int64_t> next_;
  std::vector<std::string> messages_;
  std::vector<std::string> keys_;
};

}  // namespace telar::test
