#pragma once

#include <nanobind/nanobind.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "python/native/values.h"
#include "telar/data/streams/leased_batches.h"

namespace telar::python {

/// A batch of Python: its arrays, in the order of the tensors.
struct FedBatch {
  std::vector<const std::byte*> data;
  int64_t size = 0;
  int64_t first_sample = 0;
  std::shared_ptr<nanobind::object> arrays;  ///< keep the memory
};

/// The batches of an epoch, which a function of Python gives one after another, for the workers of a cluster.
/// Thread-safe; called without Python's lock.
class Feed {
 public:
  /// `next`: called with Python's lock; gives the next batch and throws if there is none.
  explicit Feed(std::function<FedBatch()> next) : next_(std::move(next)) {}

  /// Batch `step` of the epoch. Those before it may still be in use.
  FedBatch take(int64_t step);
  /// Nobody will take the batch again.
  void forget(int64_t step);

 private:
  const std::function<FedBatch()> next_;
  std::mutex mutex_;
  int64_t read_ = 0;
  std::map<int64_t, FedBatch> held_;
};

/// Leased parts of fed batches, for one worker.
class FedBatches final : public LeasedBatches {
 public:
  FedBatches(Feed& feed, std::vector<BatchTensor> tensors, int64_t parts)
      : feed_(feed), tensors_(std::move(tensors)), parts_(parts) {}

  void clear() override { entries_.clear(); }
  void add(const Lease& lease, int64_t step) override { entries_.push_back({lease.epoch, step, lease.part}); }

  const std::vector<BatchTensor>& tensors() const override { return tensors_; }
  Position begin(uint32_t pass) const override;
  std::optional<Position> find(uint32_t pass, int64_t batches) const override;
  std::optional<PassSize> size(uint32_t /*pass*/) const override { return std::nullopt; }
  bool at_end(const Position& position) const override;
  std::optional<Position> after(const Position& /*position*/) const override { return std::nullopt; }
  using BatchSource::read;
  void read(const Position& position, Batch& batch, const std::stop_token& stop) const override;

 private:
  struct Entry {
    uint32_t epoch = 0;
    int64_t step = 0;
    int64_t part = 0;
  };

  Feed& feed_;
  const std::vector<BatchTensor> tensors_;
  const int64_t parts_;
  std::vector<Entry> entries_;  // of an epoch
};

}  // namespace telar::python
