#include "telar/comm/mpi/sums.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <vector>

#include "telar/comm/group.h"
#include "telar/core/error.h"

namespace telar::mpi {

namespace {

class MpiSums final : public Sums {
 public:
  explicit MpiSums(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }

  void add(std::span<float> shard, SumTo to) override {
    Sum& sum = sums_.emplace_back();
    sum.shard = shard;
    if (to == SumTo::parts) return send(sum);
    MPI_Iallreduce(MPI_IN_PLACE, shard.data(), count_of(shard.size()), MPI_FLOAT, MPI_SUM, comm_,
                   &sum.requests.emplace_back());
  }

  size_t complete() override {
    while (complete_ < sums_.size() && is_complete(sums_[complete_])) ++complete_;
    return complete_;
  }

  void clear() override {
    sums_.clear();
    complete_ = 0;
  }

 private:
  struct Sum {
    std::span<float> shard;
    bool to_parts = false;
    std::vector<MPI_Request> requests;
    bool receives = false;
  };

  std::span<float> part(const Sum& sum, int process) const {
    const auto [begin, end] = shard_of(sum.shard.size(), process, size_);
    return sum.shard.subspan(begin, end - begin);
  }

  /// Sends every other process its part of this one's values.
  void send(Sum& sum) {
    sum.to_parts = true;
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      const std::span<float> values = part(sum, other);
      MPI_Isend(values.data(), count_of(values.size()), MPI_FLOAT, other, 0, comm_,
                &sum.requests.emplace_back());
    }
  }

  /// Receives for one sum at a time, so that memory for one is enough.
  void receive(Sum& sum) {
    sum.receives = true;
    const size_t count = part(sum, rank_).size();
    received_.resize(count * static_cast<size_t>(size_));
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      MPI_Irecv(received_.data() + static_cast<size_t>(other) * count, count_of(count), MPI_FLOAT, other, 0,
                comm_, &sum.requests.emplace_back());
    }
  }

  bool is_complete(Sum& sum) {
    if (sum.to_parts && !sum.receives) receive(sum);
    int done = 0;
    MPI_Testall(static_cast<int>(sum.requests.size()), sum.requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done != 0 && sum.to_parts) add_received(sum);
    return done != 0;
  }

  /// In rank order.
  void add_received(const Sum& sum) {
    const std::span<float> own = part(sum, rank_);
    const size_t count = own.size();
    std::copy(own.begin(), own.end(), received_.begin() + static_cast<std::ptrdiff_t>(rank_ * count));
    std::copy_n(received_.begin(), count, own.begin());
    for (int process = 1; process < size_; ++process) {
      const float* values = received_.data() + static_cast<size_t>(process) * count;
#pragma omp simd
      for (size_t i = 0; i < count; ++i) own[i] += values[i];
    }
  }

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  std::deque<Sum> sums_;
  std::vector<float> received_;
  size_t complete_ = 0;
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

int count_of(size_t values) {
  if (values > static_cast<size_t>(std::numeric_limits<int>::max())) {
    throw user_error("a bucket of {} values is too large for one MPI call; lower strategy.bucket_mb", values);
  }
  return static_cast<int>(values);
}

std::unique_ptr<Sums> make_mpi_sums(MPI_Comm comm) { return std::make_unique<MpiSums>(comm); }

std::unique_ptr<Sums> make_shared_sums(SharedRegions& regions) {
  return std::make_unique<SharedSums>(regions);
}

}  // namespace telar::mpi
