#include "telar/data/stream_batches.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "telar/core/error.h"

namespace telar {

namespace {

using WaitClock = std::chrono::steady_clock;

/// How long one call waits for a message, before it asks whether to stop.
constexpr std::chrono::milliseconds kWait(100);
/// The same, if another partition may receive one first.
constexpr std::chrono::milliseconds kArrivalWait(2);
constexpr std::chrono::seconds kWaitWarning(10);
constexpr int kTakenForEnds = 10'000;

std::vector<BatchTensor> tensors_of_stream(const SampleSpec& spec) {
  const bool classes = spec.classes > 0;
  return {{"x", spec.dtype, spec.features},
          {"label", classes ? DType::i32 : DType::f32, classes ? Shape{} : spec.targets}};
}

int64_t sum_of_lengths(const std::vector<int64_t>& starts, const std::vector<int64_t>& ends) {
  int64_t sum = 0;
  for (size_t p = 0; p < starts.size(); ++p) sum += ends[p] - starts[p];
  return sum;
}

void check_stream(const StreamOptions& options, const MessageLog& log) {
  const auto partitions = static_cast<size_t>(log.partitions());
  if (options.batch < 1) throw user_error("the batch is {}; it must be at least 1", options.batch);
  for (const auto& [offsets, name] : {std::pair(&options.starts, "start"), std::pair(&options.ends, "end")}) {
    const bool optional = offsets == &options.ends && offsets->empty();
    const bool fewer = options.fewer_partitions && offsets->size() < partitions && !offsets->empty();
    if (!optional && !fewer && offsets->size() != partitions)
      throw user_error("data.{} has {} offsets; topic '{}' has {} partitions", name, offsets->size(),
                       log.name(), partitions);
  }
  for (size_t p = 0; p < options.ends.size(); ++p) {
    if (options.ends[p] < options.starts[p])
      throw user_error("topic '{}', partition {}: the end {} comes before the start {}", log.name(), p,
                       options.ends[p], options.starts[p]);
  }
}

}  // namespace

StreamBatches::StreamBatches(std::unique_ptr<MessageLog> log, StreamOptions options)
    : log_(std::move(log)),
      options_(std::move(options)),
      tensors_(tensors_of_stream(options_.format.spec)),
      decoder_(message_decoder(options_.format)),
      damaged_(log_->name(), {options_.skip_damaged, options_.batch, options_.dead_letters, options_.warn}),
      partitions_(static_cast<int>(options_.starts.size())),
      warned_of_(partitions_),
      reading_(options_.starts.size(), -1) {
  check_stream(options_, *log_);
  if (!options_.ends.empty()) {
    options_.messages = sum_of_lengths(options_.starts, options_.ends);
    if (options_.messages == 0)
      throw user_error("topic '{}' has no messages between data.start and data.end", log_->name());
  }
}

std::string StreamBatches::described() const {
  const std::string topic = fmt::format("topic '{}' with {} {}", log_->name(), partitions_,
                                        partitions_ == 1 ? "partition" : "partitions");
  return options_.messages == 0 ? topic + ", without an end"
                                : fmt::format("{}, {} messages", topic, options_.messages);
}

StreamPosition StreamBatches::place_of(const Position& position) const {
  return stream_position(position, log_->name(), options_.starts);
}

Position StreamBatches::begin(uint32_t pass) const {
  if (pass > 0 && options_.messages == 0)
    throw run_error("topic '{}' is read without an end, so it has no pass {}", log_->name(), pass);
  return to_position({.pass = pass, .next = options_.starts, .last = {}}, log_->name());
}

std::optional<Position> StreamBatches::find(uint32_t pass, int64_t batches) const {
  if (batches != 0 || (pass > 0 && options_.messages == 0)) return std::nullopt;
  return begin(pass);
}

std::optional<PassSize> StreamBatches::size(uint32_t /*pass*/) const {
  if (options_.messages == 0) return std::nullopt;
  return PassSize{(options_.messages + options_.batch - 1) / options_.batch, options_.messages};
}

bool StreamBatches::at_end(const Position& position) const {
  const StreamPosition place = place_of(position);
  return options_.messages > 0 && place.messages >= options_.messages;
}

const StreamBatches::Known* StreamBatches::known_batch(const Position& at) const {
  const auto found = std::ranges::find(known_, at, &Known::at);
  return found == known_.end() ? nullptr : &*found;
}

void StreamBatches::remember(Known batch) const {
  const std::scoped_lock lock(known_mutex_);
  if (known_batch(batch.at) != nullptr) return;
  known_.push_back(std::move(batch));
  if (known_.size() > options_.remembered) known_.pop_front();
}

BatchUse StreamBatches::uses(const Position& after) const {
  const std::scoped_lock lock(known_mutex_);
  const auto found = std::ranges::find(known_, after, &Known::after);
  if (found == known_.end() || !options_.audit)
    throw run_error("the batch before this position has not been read here, or is not remembered");
  std::vector<Taken> taken = found->taken;
  std::ranges::sort(taken, {}, [](const Taken& t) { return std::pair(t.partition, t.offset); });
  BatchUse use;
  for (const Taken& t : taken) {
    std::vector<UsedOffsets>& ranges = t.left_out ? use.left_out : use.used;
    const bool follows =
        !ranges.empty() && ranges.back().partition == t.partition && ranges.back().end == t.offset;
    if (follows) {
      ++ranges.back().end;
    } else {
      ranges.push_back({t.partition, t.offset, t.offset + 1});
    }
  }
  return use;
}

Position StreamBatches::skip(const Position& position, int64_t batches) const {
  StreamPosition place = place_of(position);
  int64_t left = batches * options_.batch;
  if (options_.messages > 0) left = std::min(left, options_.messages - place.messages);
  std::vector<int64_t> sizes(place.next.size(), left);
  for (size_t p = 0; p < options_.ends.size(); ++p) sizes[p] = options_.ends[p] - place.next[p];
  take_in_turn(place, sizes, left);
  return to_position(place, log_->name());
}

void StreamBatches::take_in_turn(StreamPosition& place, const std::vector<int64_t>& sizes,
                                 int64_t messages) const {
  const auto in_rounds = [&](int64_t rounds) {
    int64_t sum = 0;
    for (const int64_t size : sizes) sum += std::min(size, rounds);
    return sum;
  };
  int64_t rounds = 0;  // the most in which every partition that has not ended gives a message
  for (int64_t beyond = messages + 1; beyond - rounds > 1;) {
    const int64_t middle = rounds + (beyond - rounds) / 2;
    (in_rounds(middle) <= messages ? rounds : beyond) = middle;
  }
  place.messages += messages;
  int64_t left = messages - in_rounds(rounds);
  for (size_t p = 0; p < sizes.size(); ++p) place.next[p] += std::min(sizes[p], rounds);
  for (int p = place.turn; left > 0; p = (p + 1) % partitions_) {
    if (sizes[static_cast<size_t>(p)] <= rounds) continue;
    ++place.next[static_cast<size_t>(p)];
    place.turn = (p + 1) % partitions_;
    --left;
  }
  place.last.clear();
}

void StreamBatches::look_for_partitions() const {
  const int now = log_->partitions_now();
  if (now <= warned_of_) return;
  warned_of_ = now;
  if (options_.warn)
    options_.warn(fmt::format(
        "topic '{}' has {} partitions now; this run uses {} of them, and no messages of the others; {}",
        log_->name(), now, partitions_,
        options_.messages == 0 ? "stop it and continue it with --resume, to use all" : "a new run uses all"));
}

std::vector<int64_t> StreamBatches::known_ends(const Position& position) const {
  const StreamPosition place = place_of(position);
  const std::scoped_lock lock(mutex_);
  look_for_partitions();
  std::vector<int64_t> ends = place.next;
  for (int p = 0; p < partitions_; ++p) {
    int64_t& end = ends[static_cast<size_t>(p)];
    int64_t& reading = reading_[static_cast<size_t>(p)];
    if (reading < 0) log_->seek(p, reading = end);
    // The end comes with the messages, so they are taken, until many lie before it.
    for (int taken = 0; taken < kTakenForEnds && log_->next(p, std::chrono::milliseconds(0)); ++taken) {
    }
    end += log_->behind(p, end).value_or(0);
    if (end - log_->awaited(p) > kTakenForEnds) log_->seek(p, end);
  }
  return ends;
}

std::vector<int64_t> StreamBatches::sizes_between(const StreamPosition& place,
                                                  const std::vector<int64_t>& ends) const {
  std::vector<int64_t> sizes(ends.size());
  for (size_t p = 0; p < ends.size(); ++p) {
    const int64_t end = options_.ends.empty() ? ends[p] : std::min(ends[p], options_.ends[p]);
    sizes[p] = std::max<int64_t>(0, end - place.next[p]);
  }
  return sizes;
}

int64_t StreamBatches::sum_in_pass(const StreamPosition& place, const std::vector<int64_t>& sizes) const {
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  return options_.messages > 0 ? std::min(all, std::max<int64_t>(0, options_.messages - place.messages))
                               : all;
}

std::optional<StreamPosition> StreamBatches::whole(const Position& position, int64_t batches,
                                                   const std::vector<int64_t>& ends) const {
  StreamPosition later = place_of(skip(position, batches));
  for (size_t p = 0; p < ends.size(); ++p)
    if (later.next[p] > ends[p]) return std::nullopt;
  return later;
}

int64_t StreamBatches::complete(const Position& position, const std::vector<int64_t>& ends) const {
  if (at_end(position)) return 0;
  const StreamPosition place = place_of(position);
  const int64_t all = sum_in_pass(place, sizes_between(place, ends));
  if (options_.by_arrival) return is_end(place, all) ? all : all - all % options_.batch;
  int64_t batches = 0;  // the most that exist
  for (int64_t beyond = all / options_.batch + 2; beyond - batches > 1;) {
    const int64_t middle = batches + (beyond - batches) / 2;
    (whole(position, middle, ends) ? batches : beyond) = middle;
  }
  return batches == 0 ? 0 : whole(position, batches, ends)->messages - place.messages;
}

std::string StreamBatches::awaited(const Position& position, const std::vector<int64_t>& ends) const {
  const std::scoped_lock lock(mutex_);
  if (options_.by_arrival) return waiting_for("a message");
  const StreamPosition place = place_of(position);
  const StreamPosition later = place_of(skip(position, 1));
  int first = place.turn;  // of those that lack a message, the one whose turn comes first
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < partitions_; ++i) {
    const int partition = (place.turn + i) % partitions_;
    const auto p = static_cast<size_t>(partition);
    const int64_t messages = ends[p] - place.next[p];
    if (later.next[p] <= ends[p] || messages >= fewest) continue;
    first = partition;
    fewest = messages;
  }
  return waiting_for(fmt::format("partition {}", first));
}

std::string StreamBatches::waiting_for(const std::string& awaited) const {
  const std::string trouble = log_->trouble();
  return fmt::format("topic '{}': waiting for {}{}", log_->name(), awaited,
                     trouble.empty() ? "" : ": " + trouble);
}

std::optional<Position> StreamBatches::next_end(const Position& position, const std::vector<int64_t>& ends,
                                                bool close) const {
  if (at_end(position)) return std::nullopt;
  if (!options_.by_arrival) {
    const std::optional<StreamPosition> end = whole(position, 1, ends);
    return end ? std::optional(to_position(*end, log_->name())) : std::nullopt;
  }
  StreamPosition place = place_of(position);
  const std::vector<int64_t> sizes = sizes_between(place, ends);
  const int64_t all = sum_in_pass(place, sizes);
  if (all == 0 || (all < options_.batch && !close && !is_end(place, all))) return std::nullopt;
  take_in_turn(place, sizes, std::min(all, options_.batch));
  return to_position(place, log_->name());
}

std::vector<UsedOffsets> StreamBatches::between(const Position& position, const Position& later) const {
  const StreamPosition from = place_of(position);
  const StreamPosition to = place_of(later);
  std::vector<UsedOffsets> ranges;
  for (size_t p = 0; p < from.next.size(); ++p)
    if (from.next[p] < to.next[p]) ranges.push_back({static_cast<int>(p), from.next[p], to.next[p]});
  return ranges;
}

std::optional<int64_t> StreamBatches::behind(const Position& position) const {
  const StreamPosition place = place_of(position);
  std::vector<int64_t> ends = place.next;
  for (size_t p = 0; p < ends.size(); ++p) {
    const std::optional<int64_t> messages = log_->behind(static_cast<int>(p), place.next[p]);
    if (!messages) return std::nullopt;
    ends[p] += *messages;
  }
  return sum_in_pass(place, sizes_between(place, ends));
}

void StreamBatches::stored(const Position& position) const { log_->tell_used(place_of(position).next); }

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
    if (stream_.reading_[p] < 0 && place_.last[p]) recognise(partition);
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

  static MessageMark mark_of(const Message& message) {
    // Producers choose the times; -1 stands for none.
    return {std::clamp<int64_t>(message.time, -1, std::numeric_limits<int64_t>::max() - 1),
            static_cast<int64_t>(message.value.size())};
  }

  /// Throws unless the partition has the same message before this position as it had then.
  void recognise(int partition) {
    const auto p = static_cast<size_t>(partition);
    const int64_t next = place_.next[p];
    if (log_.first(partition) >= next) return;
    log_.seek(partition, next - 1);
    std::optional<Message> message;
    const auto began = WaitClock::now();
    while (!(message = log_.next(partition, kWait))) {
      if (log_.awaited(partition) >= next) return;
      wait_on(began, fmt::format("partition {}", partition));
    }
    if (message->offset == next - 1 && mark_of(*message) != place_.last[p])
      throw user_error(
          "topic '{}', partition {}: offset {} is another message than the one that this run has used, so the topic was deleted and created again; its messages cannot continue the run; start a new one",
          log_.name(), partition, next - 1);
    stream_.reading_[p] = message->offset + 1;
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
      stream_.decoder_->decode(message_.value, sample, {batch.data(1) + i * labels, labels});
    } catch (const Error& error) {
      stream_.damaged_.leave_out(partition, message_, error.what(), !again_, mine_);
      ++place_.left_out;
      taken_.back().left_out = true;
      return false;
    }
    if (!again_) stream_.damaged_.sample();
    options_.channels.apply(as_floats(sample));
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
