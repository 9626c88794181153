#include <algorithm>
#include <chrono>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/streams/stream_batches.h"

// How StreamBatches reads the messages of a batch.

namespace telar {

namespace {

using WaitClock = std::chrono::steady_clock;

/// How long one call waits for a message, before it asks whether to stop.
constexpr std::chrono::milliseconds kWait(100);
/// The same, if another partition may receive one first.
constexpr std::chrono::milliseconds kArrivalWait(2);
constexpr std::chrono::seconds kWaitWarning(10);

}  // namespace

/// One call of read() or read_part().
class StreamBatches::Reading {
 public:
  static constexpr int kNoPartition = -1;

  /// `at` may be the batch's own. `later`: the batch has the messages before this position, and only those of
  /// the part are decoded; none: the batch follows from the options.
  Reading(const StreamBatches& stream, Position at, const Position* later, Part part, Batch& batch,
          const std::stop_token& stop)
      : stream_(stream),
        options_(stream.options_),
        log_(*stream.log_),
        at_(std::move(at)),
        part_(part),
        alone_(later != nullptr),
        ends_(alone_ ? stream.place_of(*later).next : options_.ends),
        batch_(batch),
        stop_(stop),
        place_(stream.place_of(at_)) {}

  void run() {
    recall();
    const int64_t messages = batch_messages();
    const int64_t first = part_.first(messages);
    const int64_t last = part_.last(messages);
    batch_.resize(last - first);
    batch_.arrived.clear();
    if (options_.skip_damaged && !alone_) spare_.emplace(stream_.tensors_).resize(1);
    taken_.reserve(static_cast<size_t>(messages));
    int64_t rows = 0;
    const int64_t damaged_before = place_.left_out;
    for (int64_t i = 0; i < messages; ++i) {
      const int partition = take_next();
      if (partition == kNoPartition) break;
      mine_ = i >= first && i < last;
      if (mine_) {
        rows += decode(partition, batch_, rows) ? 1 : 0;
      } else if (spare_) {
        decode(partition, *spare_, 0);
      }
    }
    // A position after damaged messages must not be stored before they are.
    stream_.damaged_.store();
    batch_.resize(rows);
    batch_.epoch = place_.pass;
    batch_.all_samples = std::ssize(taken_) - (place_.left_out - damaged_before);
    batch_.after = to_position(place_, log_.name());
    if (alone_) return;
    if (!options_.audit && !options_.by_arrival) taken_.clear();
    stream_.remember({at_, batch_.after, std::move(taken_)});
  }

 private:
  int64_t batch_messages() const {
    if (alone_) return given_messages();
    if (again_ && options_.by_arrival) return std::ssize(order_);
    if (options_.messages == 0) return options_.batch;
    const int64_t left = options_.messages - place_.messages;
    if (left <= 0) throw run_error("topic '{}': no message follows the end", log_.name());
    return std::min(options_.batch, left);
  }

  int64_t given_messages() const {
    int64_t messages = 0;
    for (size_t p = 0; p < ends_.size(); ++p) {
      const int64_t more = ends_[p] - place_.next[p];
      if (more < 0 || more > options_.batch - messages) {
        messages = 0;
        break;
      }
      messages += more;
    }
    if (messages > 0) return messages;
    throw user_error("topic '{}': the messages of a lease are not a batch of at most {}", log_.name(),
                     options_.batch);
  }

  /// If the order depended on what had arrived, it is the one of the first time.
  void recall() {
    if (alone_) return;
    const std::scoped_lock lock(stream_.known_mutex_);
    const Known* known = stream_.known_batch(at_);
    again_ = known != nullptr;
    if (known == nullptr || !options_.by_arrival) return;
    for (const Taken& taken : known->taken) order_.push_back(taken.partition);
  }

  bool has_ended(int partition) const {
    const auto p = static_cast<size_t>(partition);
    return !ends_.empty() && place_.next[p] >= ends_[p];
  }

  int after(int partition) const { return partition + 1 == stream_.partitions_ ? 0 : partition + 1; }

  /// Puts the next message into message_ and moves on behind it; returns its partition, or kNoPartition if
  /// the batch is closed before it is full.
  int take_next() {
    while (has_ended(place_.turn)) place_.turn = after(place_.turn);
    const int partition = !options_.by_arrival || alone_ ? wait_for(place_.turn)
                          : again_                       ? wait_for(order_[taken_.size()])
                                                         : wait_for_any();
    if (partition == kNoPartition) return partition;
    if (taken_.empty()) opened_ = WaitClock::now();
    const auto p = static_cast<size_t>(partition);
    require_no_gap(partition, message_.offset);
    place_.next[p] = message_.offset + 1;
    place_.last[p] = mark_of(message_);
    ++place_.messages;
    place_.turn = after(partition);
    taken_.push_back({partition, message_.offset});
    return partition;
  }

  /// The number of messages up to `ends` is known only if there is one for every offset. `found`: that of
  /// the first message, or the end.
  void require_no_gap(int partition, int64_t found) const {
    const int64_t expected = place_.next[static_cast<size_t>(partition)];
    if (ends_.empty() || found == expected) return;
    const std::string gap = fmt::format(
        "topic '{}', partition {}: there are no messages from offset {} to {} (transactions, or a compacted topic)",
        log_.name(), partition, expected, found - 1);
    if (alone_)
      throw user_error(
          "{}, so batches cannot be counted by offsets, as parameter servers need it; use a strategy without them",
          gap);
    throw user_error(
        "{}, so the messages up to data.end cannot be counted; use data.end: {{messages: N}}, or never", gap);
  }

  bool try_next(int partition, std::chrono::milliseconds wait) {
    const auto p = static_cast<size_t>(partition);
    if (stream_.reading_[p] != place_.next[p]) {
      log_.seek(partition, place_.next[p]);
      stream_.reading_[p] = place_.next[p];
    }
    const std::optional<Message> message = log_.next(partition, wait);
    if (!message) {
      const int64_t awaited = log_.awaited(partition);
      if (!ends_.empty() && awaited >= ends_[p]) require_no_gap(partition, ends_[p]);
      return false;
    }
    message_ = *message;
    stream_.reading_[p] = message_.offset + 1;
    return true;
  }

  int wait_for(int partition) {
    const auto began = WaitClock::now();
    while (!try_next(partition, kWait)) wait_on(began, fmt::format("partition {}", partition));
    return partition;
  }

  /// Whether the batch has waited for long enough.
  bool closes() const {
    return options_.linger_seconds > 0 && !taken_.empty() &&
           std::chrono::duration<double>(WaitClock::now() - opened_).count() >= options_.linger_seconds;
  }

  int wait_for_any() {
    const auto began = WaitClock::now();
    while (true) {
      const bool over = closes();  // what has arrived by now still belongs to the batch
      int partition = place_.turn;
      for (int i = 0; i < stream_.partitions_; ++i, partition = after(partition)) {
        const bool waits = i + 1 == stream_.partitions_ && !over;
        if (!has_ended(partition) && try_next(partition, waits ? kArrivalWait : std::chrono::milliseconds(0)))
          return partition;
      }
      if (over) return kNoPartition;
      wait_on(began, "a message");
    }
  }

  void wait_on(WaitClock::time_point began, const std::string& awaited) {
    if (stop_.stop_requested() || (options_.stop_requested && options_.stop_requested())) throw ReadStopped();
    stream_.look_for_partitions();
    if (warned_ || !options_.warn || WaitClock::now() - began < kWaitWarning) return;
    warned_ = true;
    options_.warn(stream_.waiting_for(awaited));
  }

  /// False if the message is damaged and left out.
  bool decode(int partition, Batch& batch, int64_t row) {
    const size_t i = static_cast<size_t>(row);
    const size_t features = stream_.tensors_[0].sample_bytes();
    const size_t labels = stream_.tensors_[1].sample_bytes();
    const std::span<std::byte> sample(batch.data(0) + i * features, features);
    try {
      stream_.decoder_->decode(value_of(message_), sample, {batch.data(1) + i * labels, labels});
    } catch (const Error& error) {
      stream_.damaged_.leave_out(partition, message_, error.what(), !again_, mine_);
      ++place_.left_out;
      taken_.back().left_out = true;
      return false;
    }
    if (!again_) stream_.damaged_.sample();
    batch.ids()[i] = message_.offset * stream_.partitions_ + partition;
    if (message_.time >= 0) batch.arrived.push_back(message_.time);
    return true;
  }

  const StreamBatches& stream_;
  const StreamOptions& options_;
  MessageLog& log_;
  Position at_;
  Part part_;
  bool alone_;
  std::vector<int64_t> ends_;  ///< of the batch's messages; empty: none
  Batch& batch_;
  const std::stop_token& stop_;
  StreamPosition place_;
  Message message_;
  std::vector<Taken> taken_;
  std::vector<int> order_;  ///< partitions, if the batch has been read before
  bool again_ = false;
  bool warned_ = false;
  bool mine_ = false;             ///< the message belongs to this worker's part
  std::optional<Batch> spare_;    ///< for messages of others' parts
  WaitClock::time_point opened_;  ///< when the first message was taken
};

void StreamBatches::read(const Position& position, Batch& batch, const std::stop_token& stop) const {
  const std::scoped_lock lock(mutex_);
  look_for_partitions();
  Reading(*this, position, nullptr, options_.part, batch, stop).run();
}

void StreamBatches::read_part(const Position& position, const Position& later, Part part, Batch& batch,
                              const std::stop_token& stop) const {
  const std::scoped_lock lock(mutex_);
  Reading(*this, position, &later, part, batch, stop).run();
}

}  // namespace telar
