#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "telar/data/messages/damaged_messages.h"
#include "telar/data/messages/message_format.h"
#include "telar/data/streams/message_log.h"
#include "telar/data/streams/stream.h"
#include "telar/data/streams/stream_position.h"

namespace telar {

struct StreamOptions {
  MessageFormat format;
  int64_t batch = 0;              ///< messages in a batch, over all workers
  Part part = {};                 ///< of each batch, for this worker
  std::vector<int64_t> starts;    ///< one for each partition that is read
  bool fewer_partitions = false;  ///< the topic may have more than these, of which no messages are read
  std::vector<int64_t> ends;      ///< the same; empty: no end at offsets
  int64_t messages = 0;           ///< of a pass; 0: there is no end
  /// Messages of the partition that has some, not of each partition in turn.
  bool by_arrival = false;
  /// By arrival: a batch ends so long after its first message was taken, also if it is not full. 0: never.
  double linger_seconds = 0;
  bool skip_damaged = false;
  bool audit = false;       ///< for uses()
  size_t remembered = 16;   ///< batches, for uses() and, by arrival, to be read again
  FeatureScale scale = {};  ///< for normalising the features
  /// Where damaged messages go if they are skipped, with headers that say where they come from and what is
  /// wrong with them; null: nowhere. A batch is returned when those of this worker's part of it are stored.
  std::shared_ptr<MessageSink> dead_letters = {};
  std::function<void(const std::string&)> warn = {};
  std::function<bool()> stop_requested = {};
};

/// The messages of a topic as batches of samples.
///
/// The order of messages is that of offsets in each partition, and one message of each partition in turn:
/// partition 0, 1, …, 0, 1, …, without the partitions that have ended. So the same position always gives the
/// same batch, in every process. A partition without a next message makes all wait. With `by_arrival`, the
/// next message is one of the first partition in turn that has one; then only this object can read the last
/// batches again (StreamOptions::remembered).
///
/// A batch whose messages are all damaged has no samples. Very many of them in a row are an error, because
/// then the format is wrong.
///
/// A pass ends at `ends`, or after `messages` messages. The id of a sample is offset × partitions +
/// partition.
class StreamBatches final : public Stream {
 public:
  /// Throws Error (user) for options that do not suit the topic.
  StreamBatches(std::unique_ptr<MessageLog> log, StreamOptions options);

  const std::vector<BatchTensor>& tensors() const override { return tensors_; }
  Position begin(uint32_t pass) const override;
  std::optional<Position> find(uint32_t pass, int64_t batches) const override;
  std::optional<PassSize> size(uint32_t pass) const override;
  bool at_end(const Position& position) const override;
  std::optional<Position> after(const Position& /*position*/) const override { return std::nullopt; }
  using BatchSource::read;
  void read(const Position& position, Batch& batch, const std::stop_token& stop) const override;

  const SampleSpec& spec() const override { return options_.format.spec; }
  const std::vector<int64_t>& starts() const override { return options_.starts; }
  const std::vector<int64_t>& ends() const override { return options_.ends; }
  std::string described() const override;
  BatchUse uses(const Position& after) const override;
  Position skip(const Position& position, int64_t batches) const override;
  std::vector<UsedOffsets> between(const Position& position, const Position& later) const override;
  std::vector<int64_t> known_ends(const Position& position) const override;
  std::optional<Position> next_end(const Position& position, const std::vector<int64_t>& ends,
                                   bool close) const override;
  int64_t complete(const Position& position, const std::vector<int64_t>& ends) const override;
  Position marked(const Position& position) const override;
  void recognise(const Position& position) const override;
  std::string awaited(const Position& position, const std::vector<int64_t>& ends) const override;
  void read_part(const Position& position, const Position& later, Part part, Batch& batch,
                 const std::stop_token& stop) const override;
  int64_t left_out(const Position& position) const override { return place_of(position).left_out; }
  std::optional<int64_t> behind(const Position& position) const override;
  void stored(const Position& position) const override;

 private:
  struct Taken {
    int partition = 0;
    int64_t offset = 0;
    bool left_out = false;
  };
  /// A batch that has been read.
  struct Known {
    Position at;
    Position after;
    std::vector<Taken> taken;
  };
  class Reading;

  /// Moves on by this many messages, one of each partition in turn; `sizes`: of the partitions, at least as
  /// many together.
  void take_in_turn(StreamPosition& place, const std::vector<int64_t>& sizes, int64_t messages) const;
  StreamPosition place_of(const Position& position) const;
  /// Of each partition, the messages of the pass from a place up to these ends.
  std::vector<int64_t> sizes_between(const StreamPosition& place, const std::vector<int64_t>& ends) const;
  /// The sum of these sizes, as far as the pass has as many messages.
  int64_t sum_in_pass(const StreamPosition& place, const std::vector<int64_t>& sizes) const;
  /// Whether the pass ends so many messages after a place.
  bool is_end(const StreamPosition& place, int64_t messages) const {
    return options_.messages > 0 && place.messages + messages == options_.messages;
  }
  /// The end of a number of batches, if their messages exist, which end at these offsets.
  std::optional<StreamPosition> whole(const Position& position, int64_t batches,
                                      const std::vector<int64_t>& ends) const;
  std::string waiting_for(const std::string& awaited) const;
  /// Of the message before an offset; none if the topic does not have it (any more). `wait` is called while
  /// it does not arrive, and may throw.
  std::optional<MessageMark> mark_before(int partition, int64_t next,
                                         const std::function<void()>& wait) const;
  /// Warns once if the topic has got more partitions.
  void look_for_partitions() const;
  const Known* known_batch(const Position& at) const;
  void remember(Known batch) const;

  std::unique_ptr<MessageLog> log_;
  StreamOptions options_;
  std::vector<BatchTensor> tensors_;
  std::unique_ptr<MessageDecoder> decoder_;
  mutable std::mutex mutex_;  ///< guards the log, and what follows
  mutable DamagedMessages damaged_;
  int partitions_;                        ///< that are read, the first ones of the topic
  mutable int warned_of_ = 0;             ///< partitions that the topic has, of which a warning told
  mutable std::vector<int64_t> reading_;  ///< of each partition, the offset that the log reads next
  mutable std::mutex known_mutex_;        ///< guards the batches below
  mutable std::deque<Known> known_;       ///< the last ones
};

}  // namespace telar
