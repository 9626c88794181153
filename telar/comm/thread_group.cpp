#include "telar/comm/thread_group.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <thread>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/core/waiting.h"

namespace telar {

namespace {

/// One bucket in flight. Each member publishes the location of its bucket and increments the count. A member
/// that sees that all have arrived sums its own shard. Counts grow from step to step (target = size ×
/// generation), so they need no clearing. A new generation overwrites the pointers only after a barrier, when
/// no member reads the old ones any more.
struct Exchange {
  explicit Exchange(size_t size) : buckets(size) {}
  std::vector<std::span<float>> buckets;  // by rank
  std::atomic<uint64_t> arrived{0};
};

constexpr size_t kBlock = 2048;  // floats: blocks of two members and their sum fit the first-level cache

/// to = a + b. `to` may be a or b; the compiler cannot know that, hence the pragma.
void add(const float* a, const float* b, float* to, size_t count) {
#pragma omp simd
  for (size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

/// The sum of [from, from + count) of every row, in rank order; count <= kBlock. `to` may be that range of a
/// row.
void sum_rows(const std::vector<std::span<float>>& rows, size_t from, size_t count, float* to) {
  const size_t last = rows.size() - 1;
  std::array<float, kBlock> partial;
  const float* sum = rows[0].data() + from;
  for (size_t r = 1; r < last; ++r) {
    add(sum, rows[r].data() + from, partial.data(), count);
    sum = partial.data();
  }
  add(sum, rows[last].data() + from, to, count);
}

/// Like sum_rows, but writes the result to every row.
void sum_for_all(const std::vector<std::span<float>>& rows, size_t from, size_t count) {
  float* first = rows[0].data() + from;
  if (rows.size() == 2) {  // in one pass
    float* second = rows[1].data() + from;
#pragma omp simd
    for (size_t i = 0; i < count; ++i) first[i] = second[i] = first[i] + second[i];
    return;
  }
  sum_rows(rows, from, count, first);
  for (size_t r = 1; r < rows.size(); ++r) std::copy_n(first, count, rows[r].data() + from);
}

/// Members that compute equal parts arrive within microseconds of each other.
constexpr std::chrono::microseconds kLook(30);

/// What the other members know of one.
struct MemberState {
  std::atomic<bool> waits{false};  ///< for other members
  std::atomic<int32_t> thread{0};  ///< thread_id() of the thread that uses it; 0: not known yet
};

}  // namespace

struct ThreadTeam::Shared {
  explicit Shared(int count)
      : size(count),
        members(static_cast<size_t>(count)),
        published(static_cast<size_t>(count)),
        windows(static_cast<size_t>(count)),
        sent(static_cast<size_t>(count)) {}

  /// Waits until the condition holds, or throws when a member has failed before that. So what all members
  /// have reached completes for all of them, whoever fails afterwards. Spins first. Then looks whether the
  /// members for which it waits run at all: one that waits for a processor is moved to this one, which is
  /// left to it at once. Sleeping instead would leave the processor to it, too, but waking up takes as long
  /// as a part of a small step.
  template <typename Condition>
  void wait_until(int rank, const Condition& condition) {
    const auto done = [&] {
      if (condition()) return true;
      check();
      return false;
    };
    if (spin_until(done, kLook)) return;
    MemberState& self = members[static_cast<size_t>(rank)];
    self.waits.store(true, std::memory_order_relaxed);
    for (int other = next_computing(rank);; other = next_computing(other)) {
      const int32_t thread = members[static_cast<size_t>(other)].thread.load(std::memory_order_relaxed);
      const int64_t before = processor_time(thread);
      if (spin_until(done, kLook)) break;
      if (other != rank && before >= 0 && processor_time(thread) == before) move_to_this_processor(thread);
      std::this_thread::yield();
    }
    self.waits.store(false, std::memory_order_relaxed);
  }

  /// The member after `rank` that does not wait; `rank` if all wait.
  int next_computing(int rank) const {
    int other = rank;
    do {
      other = (other + 1) % size;
    } while (other != rank && members[static_cast<size_t>(other)].waits.load(std::memory_order_relaxed));
    return other;
  }

  void check() const {
    const int failed = failed_rank.load(std::memory_order_acquire);
    if (failed >= 0) throw run_error("replica {} failed; the others stopped with it", failed);
  }

  /// Records which thread uses a member.
  void introduce(int rank) {
    members[static_cast<size_t>(rank)].thread.store(thread_id(), std::memory_order_relaxed);
  }

  void barrier(int rank) {
    introduce(rank);
    const uint64_t turn = barrier_turn.load(std::memory_order_acquire);
    if (barrier_arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
      barrier_arrived.store(0, std::memory_order_relaxed);
      barrier_turn.store(turn + 1, std::memory_order_release);
      return;
    }
    wait_until(rank, [&] { return barrier_turn.load(std::memory_order_acquire) != turn; });
  }

  Exchange& exchange(size_t index) {
    const std::lock_guard lock(mutex);
    while (exchanges.size() <= index) exchanges.emplace_back(static_cast<size_t>(size));
    return exchanges[index];
  }

  int size;
  std::vector<MemberState> members;
  std::atomic<int> failed_rank{-1};
  std::atomic<int> barrier_arrived{0};
  std::atomic<uint64_t> barrier_turn{0};
  std::mutex mutex;  // guards growth of `exchanges`; the deque does not move its elements
  std::deque<Exchange> exchanges;
  std::vector<std::span<float>> published;  // for small collectives: between two barriers
  std::vector<Buffer> windows;              // of each member, twice the size of a window
  /// For exchange(), between two barriers. Copies: a member that stops because another failed leaves with its
  /// own list, which others may still read.
  std::vector<std::vector<std::span<const std::byte>>> sent;
};

namespace {

/// A member writes one half of its memory while others may still read the other half.
class ThreadWindows final : public Windows {
 public:
  ThreadWindows(ThreadTeam::Shared& shared, int rank) : shared_(shared), rank_(rank) {}

  void grow(size_t bytes) {
    if (bytes <= bytes_) return;
    shared_.barrier(rank_);  // all have read what was written
    shared_.windows[static_cast<size_t>(rank_)] = Buffer(2 * bytes);
    bytes_ = bytes;
    shared_.barrier(rank_);
  }
  void reset() { bytes_ = turn_ = 0; }

  std::span<std::byte> own() override { return half(rank_, turn_); }
  void meet() override {
    shared_.barrier(rank_);
    turn_ = 1 - turn_;
  }
  std::span<const std::byte> of(int member) const override { return half(member, 1 - turn_); }

 private:
  std::span<std::byte> half(int member, size_t turn) const {
    Buffer& memory = shared_.windows[static_cast<size_t>(member)];
    return {memory.data() + turn * bytes_, bytes_};
  }

  ThreadTeam::Shared& shared_;
  int rank_;
  size_t bytes_ = 0;
  size_t turn_ = 0;
};

class ThreadMember final : public Group {
 public:
  ThreadMember(ThreadTeam::Shared& shared, int rank) : shared_(shared), rank_(rank), windows_(shared, rank) {}

  int rank() const override { return rank_; }
  int size() const override { return shared_.size; }

  std::span<std::byte> allocate(size_t bytes) override {
    memory_ = Buffer(bytes);
    return {memory_.data(), memory_.size()};
  }

  void start_reduce_scatter(std::span<float> bucket) override {
    shared_.introduce(rank_);
    if (started_.size() == count_started_) started_.push_back(&shared_.exchange(count_started_));
    Exchange& exchange = *started_[count_started_++];
    exchange.buckets[static_cast<size_t>(rank_)] = bucket;
    exchange.arrived.fetch_add(1, std::memory_order_acq_rel);
  }

  std::pair<size_t, size_t> shard(size_t count) const override {
    return shard_of(count, rank_, shared_.size);
  }

  size_t poll() override {
    while (count_done_ < count_started_ && ready(*started_[count_done_])) sum_shard(*started_[count_done_++]);
    return count_done_;
  }

  void finish() override {
    while (count_done_ < count_started_) {
      Exchange& exchange = *started_[count_done_];
      shared_.wait_until(rank_, [&] { return ready(exchange); });
      sum_shard(exchange);
      ++count_done_;
    }
    count_done_ = 0;
    count_started_ = 0;
    ++generation_;
  }

  void all_reduce(std::span<float> values) override {
    if (shared_.size == 1) return;
    // Each member sums its shard and writes it to all members' values.
    const std::vector<std::span<float>>& all = publish(values);
    const auto [begin, end] = shard(values.size());
    for (size_t from = begin; from < end; from += kBlock) {
      sum_for_all(all, from, std::min(kBlock, end - from));
    }
    shared_.barrier(rank_);
  }

  double sum_over_shards(double value) override {
    // Two floats hold a double's leading 48 bits. All members sum them in rank order, so all get the same
    // bits.
    std::vector<float> rows(static_cast<size_t>(size()) * 2);
    const auto high = static_cast<float>(value);
    rows[static_cast<size_t>(rank_) * 2] = high;
    rows[static_cast<size_t>(rank_) * 2 + 1] = static_cast<float>(value - static_cast<double>(high));
    all_gather(rows);
    double sum = 0;
    for (const float part : rows) sum += static_cast<double>(part);
    return sum;
  }

  void all_gather(std::span<float> rows) override {
    const std::vector<std::span<float>>& all = publish(rows);
    const size_t length = rows.size() / all.size();
    for (size_t r = 0; r < all.size(); ++r) {
      if (static_cast<int>(r) == rank_) continue;
      const auto row = all[r].subspan(r * length, length);
      std::copy(row.begin(), row.end(), rows.begin() + static_cast<std::ptrdiff_t>(r * length));
    }
    shared_.barrier(rank_);
  }

  void barrier() override { shared_.barrier(rank_); }
  void check() const override { shared_.check(); }

  void share_shards(std::span<float> bucket) override {
    if (shared_.size == 1) return;
    const std::vector<std::span<float>>& all = publish(bucket);
    for (int r = 0; r < shared_.size; ++r) {
      if (r == rank_) continue;
      const auto [begin, end] = shard_of(bucket.size(), r, shared_.size);
      const auto from = all[static_cast<size_t>(r)].subspan(begin, end - begin);
      std::copy(from.begin(), from.end(), bucket.begin() + static_cast<std::ptrdiff_t>(begin));
    }
    shared_.barrier(rank_);
  }

  void exchange(Outgoing outgoing, Incoming incoming) override {
    if (shared_.size == 1) return;
    shared_.sent[static_cast<size_t>(rank_)].assign(outgoing.begin(), outgoing.end());
    shared_.barrier(rank_);
    for (size_t r = 0; r < incoming.size(); ++r) {
      if (static_cast<int>(r) == rank_) continue;
      const std::span<const std::byte> from = shared_.sent[r][static_cast<size_t>(rank_)];
      if (from.size() != incoming[r].size()) {
        throw run_error("member {} sends {} bytes to member {}, which expects {}", r, from.size(), rank_,
                        incoming[r].size());
      }
      std::copy(from.begin(), from.end(), incoming[r].begin());
    }
    shared_.barrier(rank_);
  }

  Windows* windows(size_t bytes) override {
    windows_.grow(bytes);
    return &windows_;
  }

  void reset() {
    windows_.reset();
    started_.clear();
    count_started_ = 0;
    count_done_ = 0;
    generation_ = 1;
  }

 private:
  bool ready(const Exchange& exchange) const {
    return exchange.arrived.load(std::memory_order_acquire) ==
           static_cast<uint64_t>(shared_.size) * generation_;
  }

  void sum_shard(const Exchange& exchange) const {
    if (shared_.size == 1) return;
    const std::span<float> mine = exchange.buckets[static_cast<size_t>(rank_)];
    const auto [begin, end] = shard(mine.size());
    for (size_t from = begin; from < end; from += kBlock) {
      sum_rows(exchange.buckets, from, std::min(kBlock, end - from), mine.data() + from);
    }
  }

  const std::vector<std::span<float>>& publish(std::span<float> mine) {
    shared_.published[static_cast<size_t>(rank_)] = mine;
    shared_.barrier(rank_);
    return shared_.published;  // valid until all members have passed the collective's last barrier
  }

  ThreadTeam::Shared& shared_;
  int rank_;
  ThreadWindows windows_;
  Buffer memory_;
  std::vector<Exchange*> started_;
  size_t count_started_ = 0;
  size_t count_done_ = 0;
  uint64_t generation_ = 1;
};

}  // namespace

ThreadTeam::ThreadTeam(int size) : shared_(std::make_unique<Shared>(size)) {
  for (int rank = 0; rank < size; ++rank) members_.push_back(std::make_unique<ThreadMember>(*shared_, rank));
}

ThreadTeam::~ThreadTeam() = default;

Group& ThreadTeam::member(int rank) { return *members_[static_cast<size_t>(rank)]; }

void ThreadTeam::fail(int rank) {
  int none = -1;
  shared_->failed_rank.compare_exchange_strong(none, rank);
}

void ThreadTeam::reset() {
  for (const auto& member : members_) static_cast<ThreadMember&>(*member).reset();
  for (MemberState& member : shared_->members) member.waits = false;
  shared_->failed_rank = -1;
  shared_->barrier_arrived = 0;
  shared_->exchanges.clear();
}

}  // namespace telar
