#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "telar/data/assignment.h"
#include "telar/data/batch_source.h"
#include "telar/data/dataset_batches.h"
#include "telar/data/streams/lease_book.h"
#include "telar/data/streams/stream.h"

namespace telar {

/// The parts of global batches that a worker leases (telar/data/streams/lease_book.h), in the order in which
/// they are added. A pass consists of what was added since clear().
class LeasedBatches : public BatchSource {
 public:
  /// Removes all parts.
  virtual void clear() = 0;
  /// Adds the leased part of the global batch `step`; until clear() all are of one epoch. Throws Error (user)
  /// for a lease of other samples.
  virtual void add(const Lease& lease, int64_t step) = 0;
};

/// The position behind so many entries of batches that are read in the order in which they were added.
Position position_of_entry(size_t entry);
/// The number of entries before a position. Throws Error (user) for the position of another source.
size_t entry_of(const Position& position);

/// Leased parts of the batches of a dataset. The global order and the batches are those of FixedSlice.
class LeasedDataset final : public LeasedBatches {
 public:
  /// `parts`: number of equal parts of each global batch. Throws Error (user) like FixedSlice. The dataset
  /// must outlive this object.
  LeasedDataset(const Dataset& data, int64_t global_batch, uint64_t seed, bool shuffle, int64_t parts,
                int64_t together = 1)
      : parts_(data.size(), global_batch, seed, shuffle, parts, together), batches_(data, parts_, seed) {}

  void clear() override { parts_.clear(); }
  void add(const Lease& lease, int64_t step) override { parts_.add(step, lease.part); }

  const std::vector<BatchTensor>& tensors() const override { return batches_.tensors(); }
  Position begin(uint32_t pass) const override { return batches_.begin(pass); }
  std::optional<Position> find(uint32_t pass, int64_t batches) const override {
    return batches_.find(pass, batches);
  }
  std::optional<PassSize> size(uint32_t pass) const override { return batches_.size(pass); }
  bool at_end(const Position& position) const override { return batches_.at_end(position); }
  std::optional<Position> after(const Position& position) const override { return batches_.after(position); }
  using BatchSource::read;
  void read(const Position& position, Batch& batch, const std::stop_token& stop) const override {
    batches_.read(position, batch, stop);
  }

 private:
  LeasedParts parts_;
  DatasetBatches batches_;
};

/// Leased parts of the batches of a stream. A lease says where its batches begin and end.
class LeasedStream final : public LeasedBatches {
 public:
  /// `parts`: number of equal parts of each global batch.
  LeasedStream(StreamPtr stream, int64_t parts) : stream_(std::move(stream)), of_(parts) {}

  void clear() override;
  void add(const Lease& lease, int64_t step) override;

  const std::vector<BatchTensor>& tensors() const override { return stream_->tensors(); }
  Position begin(uint32_t pass) const override;
  std::optional<Position> find(uint32_t pass, int64_t batches) const override;
  std::optional<PassSize> size(uint32_t /*pass*/) const override { return std::nullopt; }
  bool at_end(const Position& position) const override;
  /// Batches are read one after another, which is the order of their messages; the last one also again.
  std::optional<Position> after(const Position& /*position*/) const override { return std::nullopt; }
  using BatchSource::read;
  void read(const Position& position, Batch& batch, const std::stop_token& stop) const override;

 private:
  struct Entry {
    uint32_t epoch = 0;
    Position at;
    Position end;
    int64_t part = 0;
  };

  StreamPtr stream_;
  int64_t of_;
  mutable std::mutex mutex_;  ///< guards what follows
  /// Those before the one that was read last are forgotten.
  mutable std::deque<Entry> entries_;
  mutable size_t forgotten_ = 0;
};

}  // namespace telar
