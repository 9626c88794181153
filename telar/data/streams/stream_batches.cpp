#include "telar/data/streams/stream_batches.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/dataset_batches.h"

namespace telar {

namespace {

constexpr int kTakenForEnds = 10'000;

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
      tensors_(tensors_of(options_.format.spec)),
      decoder_(message_decoder(options_.format, options_.scale)),
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
  if (options_.messages == 0) return topic + ", without an end";
  // An offset may have no message (a transaction's marker); how many do is known only when all are read.
  return fmt::format("{}, {}{} messages", topic, options_.ends.empty() ? "" : "up to ", options_.messages);
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

}  // namespace telar
