#include "telar/comm/linked/sums.h"

#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include "telar/comm/group.h"
#include "telar/core/error.h"

namespace telar {

namespace {

/// A shard passes in pieces, so that the sums of one return while the values of the next ones arrive.
class MessageSums final : public Sums {
 public:
  explicit MessageSums(Circle circle) : circle_(std::move(circle)) {}

  void add(std::span<float> shard, SumTo to) override {
    size_t longest = 0;
    for (int process = 0; process < circle_.size(); ++process) {
      const auto [begin, end] = shard_of(shard.size(), process, circle_.size());
      longest = std::max(longest, end - begin);
    }
    const size_t pieces = std::max<size_t>(1, (longest + kPiece - 1) / kPiece);
    for (size_t piece = 0; piece < pieces; ++piece) {
      Sum& sum = sums_.emplace_back();
      sum.shard = shard;
      sum.to = to;
      sum.piece = piece;
      sum.last = piece + 1 == pieces;
      for_others([&](int other) { send(sum.sent, 0, other, part(sum, other)); });
    }
  }

  size_t complete() override {
    for (; added_ < sums_.size(); ++added_) {
      for (size_t next = added_; next < std::min(added_ + kAhead, sums_.size()); ++next) receive(sums_[next]);
      if (!all_done(sums_[added_].received)) break;
      add_received(sums_[added_]);
    }
    // The sums of others are received where the values that were sent to them lie.
    while (returned_ < added_ && all_done(sums_[returned_].sent)) return_sum(sums_[returned_++]);
    for (; complete_ < returned_ && all_done(sums_[complete_].returned); ++complete_)
      shards_ += sums_[complete_].last ? 1 : 0;
    return shards_;
  }

  void clear() override {
    sums_.clear();
    added_ = returned_ = complete_ = shards_ = 0;
  }

 private:
  static constexpr size_t kPiece = size_t{1} << 18;  // floats of each part
  static constexpr size_t kAhead = 4;                // pieces whose values may arrive

  using Transfers = std::vector<std::unique_ptr<Transfer>>;
  struct Sum {
    std::span<float> shard;
    SumTo to = SumTo::all;
    size_t piece = 0;
    bool last = false;          ///< of its shard
    Transfers sent;             ///< values, to those who sum them
    Transfers received;         ///< values of this process's part
    std::vector<float> values;  ///< those, a row for each process
    Transfers returned;         ///< sums, in both directions
  };

  template <typename Work>
  void for_others(const Work& work) const {
    for (int other = 0; other < circle_.size(); ++other)
      if (other != circle_.index) work(other);
  }
  static bool all_done(const Transfers& transfers) {
    return std::ranges::all_of(transfers, [](const auto& transfer) { return transfer->done(); });
  }

  /// The piece's part that a process sums.
  std::span<float> part(const Sum& sum, int process) const {
    const auto [begin, end] = shard_of(sum.shard.size(), process, circle_.size());
    const size_t from = std::min(end, begin + sum.piece * kPiece);
    return sum.shard.subspan(from, std::min(end - from, kPiece));
  }
  std::span<float> row(Sum& sum, int process) const {
    const size_t count = part(sum, circle_.index).size();
    return std::span(sum.values).subspan(static_cast<size_t>(process) * count, count);
  }

  void send(Transfers& transfers, int round, int other, std::span<const float> values) const {
    transfers.push_back(started(circle_.links.to(circle_.ranks[static_cast<size_t>(other)], circle_.lane,
                                                 circle_.tag + round, std::as_bytes(values))));
  }
  void receive(Transfers& transfers, int round, int other, std::span<float> values) const {
    transfers.push_back(started(circle_.links.from(circle_.ranks[static_cast<size_t>(other)], circle_.lane,
                                                   circle_.tag + round, std::as_writable_bytes(values))));
  }

  void receive(Sum& sum) {
    if (!sum.received.empty()) return;
    sum.values = std::move(spare_);
    spare_ = {};
    sum.values.resize(part(sum, circle_.index).size() * static_cast<size_t>(circle_.size()));
    for_others([&](int other) { receive(sum.received, 0, other, row(sum, other)); });
  }

  /// In rank order.
  void add_received(Sum& sum) {
    const std::span<float> own = part(sum, circle_.index);
    std::ranges::copy(own, row(sum, circle_.index).begin());
    std::ranges::copy(row(sum, 0), own.begin());
    for (int process = 1; process < circle_.size(); ++process) {
      const float* values = row(sum, process).data();
#pragma omp simd
      for (size_t i = 0; i < own.size(); ++i) own[i] += values[i];
    }
    spare_ = std::move(sum.values);
  }

  void return_sum(Sum& sum) {
    if (sum.to == SumTo::parts) return;
    for_others([&](int other) {
      send(sum.returned, 1, other, part(sum, circle_.index));
      receive(sum.returned, 1, other, part(sum, other));
    });
  }

  Circle circle_;
  std::deque<Sum> sums_;
  std::vector<float> spare_;  ///< memory of values
  size_t added_ = 0;          ///< pieces of which this process's part is summed
  size_t returned_ = 0;       ///< that pass to the others
  size_t complete_ = 0;
  size_t shards_ = 0;  ///< complete
};

/// Counts grow from step to step and are never reset. `arrived` is the number of a process's shards that all
/// may read. `delivered` is the number of shards for which the process has written its part of the sum to
/// all. A step overwrites its gradients only when all have delivered, so no process still reads or writes
/// there.
class SharedSums final : public Sums {
 public:
  explicit SharedSums(SharedRegions& regions) : regions_(regions) {}

  void add(std::span<float> shard, SumTo to) override {
    const std::span<std::byte> own = regions_.own();
    const std::span<std::byte> bytes = std::as_writable_bytes(shard);
    if (bytes.data() < own.data() || bytes.data() + bytes.size() > own.data() + own.size()) {
      throw run_error("a shard of {} floats is not in the memory of its group", shard.size());
    }
    shards_.push_back({static_cast<size_t>(bytes.data() - own.data()) / sizeof(float), shard.size(), to});
    regions_.counts(regions_.rank()).arrived.store(before_ + shards_.size(), std::memory_order_release);
  }

  size_t complete() override {
    while (delivered_ < shards_.size() && all([&](const SharedRegions::Counts& counts) {
             return counts.arrived.load(std::memory_order_acquire) > before_ + delivered_;
           })) {
      deliver(shards_[delivered_++]);
      regions_.counts(regions_.rank()).delivered.store(before_ + delivered_, std::memory_order_release);
    }
    while (complete_ < delivered_ && all([&](const SharedRegions::Counts& counts) {
             return counts.delivered.load(std::memory_order_acquire) > before_ + complete_;
           })) {
      ++complete_;
    }
    return complete_;
  }

  void clear() override {
    before_ += shards_.size();
    shards_.clear();
    delivered_ = complete_ = 0;
  }

 private:
  struct Shard {
    size_t begin;  ///< in floats, from the start of the region
    size_t size;
    SumTo to;
  };

  template <typename Condition>
  bool all(const Condition& condition) const {
    for (int process = 0; process < regions_.size(); ++process) {
      if (!condition(regions_.counts(process))) return false;
    }
    return true;
  }

  float* floats(int process, size_t at) const {
    return reinterpret_cast<float*>(regions_.of(process).data()) + at;
  }

  void deliver(const Shard& shard) const {
    const auto [begin, end] = shard_of(shard.size, regions_.rank(), regions_.size());
    for (size_t from = begin; from < end; from += kBlock) {
      const size_t at = shard.begin + from;
      const size_t count = std::min(kBlock, end - from);
      if (shard.to == SumTo::parts) {
        sum_here(at, count);
        continue;
      }
      float* first = floats(0, at);
      for (int process = 1; process + 1 < regions_.size(); ++process) {
        const float* other = floats(process, at);
#pragma omp simd
        for (size_t i = 0; i < count; ++i) first[i] += other[i];
      }
      // The last process's block is read and written in one pass.
      float* last = floats(regions_.size() - 1, at);
#pragma omp simd
      for (size_t i = 0; i < count; ++i) first[i] = last[i] = first[i] + last[i];
      for (int process = 1; process + 1 < regions_.size(); ++process) {
        std::copy_n(first, count, floats(process, at));
      }
    }
  }

  /// Sums a block of all processes in this process's memory; count <= kBlock.
  void sum_here(size_t at, size_t count) const {
    std::array<float, kBlock> sum;
    std::copy_n(floats(0, at), count, sum.data());
    for (int process = 1; process < regions_.size(); ++process) {
      const float* other = floats(process, at);
#pragma omp simd
      for (size_t i = 0; i < count; ++i) sum[i] += other[i];
    }
    std::copy_n(sum.data(), count, floats(regions_.rank(), at));
  }

  static constexpr size_t kBlock = 2048;  // floats: blocks of two processes fit the first-level cache

  SharedRegions& regions_;
  uint64_t before_ = 0;  ///< shards before the last clear()
  std::vector<Shard> shards_;
  size_t delivered_ = 0;
  size_t complete_ = 0;
};

}  // namespace

std::unique_ptr<Sums> make_message_sums(const Circle& circle) {
  return std::make_unique<MessageSums>(circle);
}

std::unique_ptr<Sums> make_shared_sums(SharedRegions& regions) {
  return std::make_unique<SharedSums>(regions);
}

}  // namespace telar
