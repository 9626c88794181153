#include "telar/comm/mpi/sums.h"

#include <algorithm>
#include <limits>

#include "telar/comm/group.h"
#include "telar/core/error.h"

namespace telar::mpi {

namespace {

class MpiSums final : public Sums {
 public:
  explicit MpiSums(MPI_Comm comm) : comm_(comm) {}

  void add(std::span<float> shard) override {
    MPI_Iallreduce(MPI_IN_PLACE, shard.data(), count_of(shard.size()), MPI_FLOAT, MPI_SUM, comm_,
                   &requests_.emplace_back());
  }

  size_t complete() override {
    while (complete_ < requests_.size()) {
      int done = 0;
      MPI_Test(&requests_[complete_], &done, MPI_STATUS_IGNORE);
      if (done == 0) break;
      ++complete_;
    }
    return complete_;
  }

  void clear() override {
    requests_.clear();
    complete_ = 0;
  }

 private:
  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
  size_t complete_ = 0;
};

/// Counts grow from step to step and are never reset. `arrived` is the number of a process's shards that all
/// may read. `delivered` is the number of shards for which the process has written its part of the sum to
/// all. A step overwrites its gradients only when all have delivered, so no process still reads or writes
/// there.
class SharedSums final : public Sums {
 public:
  explicit SharedSums(SharedRegions& regions) : regions_(regions) {}

  void add(std::span<float> shard) override {
    const std::span<std::byte> own = regions_.own();
    const std::span<std::byte> bytes = std::as_writable_bytes(shard);
    if (bytes.data() < own.data() || bytes.data() + bytes.size() > own.data() + own.size()) {
      throw run_error("a shard of {} floats is not in the memory of its group", shard.size());
    }
    shards_.push_back({static_cast<size_t>(bytes.data() - own.data()) / sizeof(float), shard.size()});
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
    constexpr size_t kBlock = 2048;  // floats: blocks of two processes fit the first-level cache
    const auto [begin, end] = shard_of(shard.size, regions_.rank(), regions_.size());
    for (size_t from = begin; from < end; from += kBlock) {
      const size_t at = shard.begin + from;
      const size_t count = std::min(kBlock, end - from);
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
