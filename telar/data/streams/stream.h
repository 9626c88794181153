#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "telar/core/attributes.h"
#include "telar/data/assignment.h"
#include "telar/data/batch_source.h"
#include "telar/data/dataset.h"
#include "telar/data/normalised.h"

namespace telar {

/// Offsets of one partition that a step has used, from `first` to before `end`.
struct UsedOffsets {
  int partition = 0;
  int64_t first = 0;
  int64_t end = 0;
  bool operator==(const UsedOffsets&) const = default;
};

/// What became of the messages of a batch. Both in ascending order.
struct BatchUse {
  std::vector<UsedOffsets> used;
  std::vector<UsedOffsets> left_out;  ///< because they are damaged
};

/// Batches of samples that arrive one after another and are stored elsewhere.
class Stream : public BatchSource {
 public:
  virtual const SampleSpec& spec() const = 0;

  /// The offsets at which the first pass begins, one for each partition.
  virtual const std::vector<int64_t>& starts() const = 0;
  /// Those at which it ends; empty: it does not end at offsets.
  virtual const std::vector<int64_t>& ends() const = 0;

  /// For the user: "topic 'events': 8 partitions, 60000 messages".
  virtual std::string described() const = 0;

  /// The offsets of the messages in the batch that was read before this position, as they were put into it.
  /// Throws Error (run) for a batch that this object has not read, or long ago, or if the source's option
  /// `audit` is not set.
  virtual BatchUse uses(const Position& after) const = 0;

  /// The position a number of batches later, if offsets have no gaps up to it; nothing is read. It does not
  /// know which messages were left out. At most the end of the pass.
  virtual Position skip(const Position& position, int64_t batches) const = 0;

  /// The messages from a position to a later one of the same pass, in ascending order.
  virtual std::vector<UsedOffsets> between(const Position& position, const Position& later) const = 0;

  /// Where each partition ends, as far as the topic has told by now; it is asked without waiting. A stream of
  /// which this is asked is not read from.
  virtual std::vector<int64_t> known_ends(const Position& position) const = 0;

  /// The end of the batch that follows a position, if its messages exist, which end at these offsets. With
  /// `close`, a batch may be smaller, if the order of messages does not depend on it (by arrival).
  virtual std::optional<Position> next_end(const Position& position, const std::vector<int64_t>& ends,
                                           bool close) const = 0;

  /// Messages of the batches from a position on that have all of theirs, which end at these offsets.
  virtual int64_t complete(const Position& position, const std::vector<int64_t>& ends) const = 0;

  /// For the user, while such a batch is missing: "topic 'events': waiting for partition 3", with the reason
  /// if it is known.
  virtual std::string awaited(const Position& position, const std::vector<int64_t>& ends) const = 0;

  /// Reads a part of the messages from a position to a later one of the same pass, which are a batch: one of
  /// each partition in turn, without the partitions that have no more. The messages of other parts are not
  /// decoded, and uses() does not know the batch. Throws Error (user) for a gap in the offsets, too.
  virtual void read_part(const Position& position, const Position& later, Part part, Batch& batch,
                         const std::stop_token& stop) const = 0;

  /// The position, with what recognise() compares: of each partition the message before it, which is read for
  /// that. A stream of which this is asked is not read from.
  virtual Position marked(const Position& position) const = 0;

  /// Throws Error (user) unless the messages before this position are those that it was marked with: then the
  /// topic was created anew. Before the first read. Waits for brokers that are away; throws ReadStopped.
  virtual void recognise(const Position& position) const = 0;

  /// Messages of the pass up to this position that were left out because they are damaged.
  virtual int64_t left_out(const Position& position) const = 0;

  /// Messages from this position on, up to the end of the pass, as far as is known without asking.
  virtual std::optional<int64_t> behind(const Position& position) const = 0;

  /// The state of the training up to this position is stored.
  virtual void stored(const Position& position) const = 0;
};

using StreamPtr = std::shared_ptr<const Stream>;

/// Which partitions of a topic are read, if the options tell at which offset each one begins.
enum class StreamPartitions {
  all,           ///< all that the topic has; there must be an offset for each
  given,         ///< those that have an offset
  given_and_new  ///< the same and, if the stream has no end, the others, from their first message on
};

/// What a stream is opened with, besides its source's options.
struct StreamRequest {
  const Attributes& options;  ///< all options of the source
  int64_t batch = 0;          ///< messages in a batch, over all workers
  Part part = {};             ///< of each batch, for this worker
  int64_t ahead = 0;          ///< batches that are read before the step that uses the first of them
  StreamPartitions partitions = StreamPartitions::all;
  FeatureScale scale = {};                            ///< for normalising
  std::function<void(const std::string&)> warn = {};  ///< may be empty; called from threads that read
  /// Ends reads that wait for messages; called from threads that read. Empty: never.
  std::function<bool()> stop_requested = {};
};

}  // namespace telar
