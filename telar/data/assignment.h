#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "telar/data/sample_order.h"

namespace telar {

/// Assigns samples to workers. A loader reads what it is assigned and makes no choice itself. Thread-safe.
class Assignment {
 public:
  virtual ~Assignment() = default;
  /// Steps (global batches) in an epoch.
  virtual int64_t steps(uint32_t epoch) const = 0;
  /// Number of samples in the global batch of a step (0 … steps-1).
  virtual int64_t batch_samples(uint32_t epoch, int64_t step) const = 0;
  /// This worker's samples of that batch; may be empty.
  virtual std::vector<int64_t> samples(uint32_t epoch, int64_t step) const = 0;
};

/// A worker's part of each global batch: shares `begin` to `end` out of `of`. If `of` is the batch size, the
/// shares are samples; worker w of n equal workers has {w, w + 1, n}. Parts that join without gap or overlap
/// do so in every batch, including a smaller last one.
struct Part {
  int64_t begin = 0;
  int64_t end = 1;
  int64_t of = 1;
  int64_t least = 1;  ///< samples of a share: if a batch has fewer for all, some shares are empty

  /// Where the part begins and ends in a batch of `samples`.
  int64_t first(int64_t samples) const { return before(begin, samples); }
  int64_t last(int64_t samples) const { return before(end, samples); }

 private:
  int64_t before(int64_t share, int64_t samples) const {
    if (samples >= least * of || share == of) return samples * share / of;
    return samples / least * share / of * least;
  }
};

/// Epochs of `size` samples in some order, cut into batches of `global_batch`. If the samples do not divide,
/// the last batch is smaller, never dropped.
class EqualBatches : public Assignment {
 public:
  int64_t steps(uint32_t epoch) const final;
  int64_t batch_samples(uint32_t epoch, int64_t step) const final;
  std::vector<int64_t> samples(uint32_t epoch, int64_t step) const final;

 protected:
  /// Throws Error (user) for a batch below 1 or no samples.
  EqualBatches(int64_t size, int64_t global_batch);
  /// This worker's samples of the batch of the positions `first` … `last`-1 of an epoch.
  virtual std::vector<int64_t> samples_of(uint32_t epoch, int64_t first, int64_t last) const = 0;

 private:
  int64_t size_;
  int64_t global_batch_;
};

/// A fixed part of every global batch. The order of an epoch is a SampleOrder of all samples, so it is the
/// same on every worker.
class FixedSlice : public EqualBatches {
 public:
  /// Throws Error (user) for a batch or `together` below 1, no samples, or a part outside its shares.
  FixedSlice(int64_t size, int64_t global_batch, uint64_t seed, bool shuffle, Part part = {},
             int64_t together = 1);

 private:
  std::vector<int64_t> samples_of(uint32_t epoch, int64_t first, int64_t last) const override;

  SampleOrder order_;
  Part part_;
};

/// For workers that have samples of their own: part r of all samples, whose sizes are given, is that of
/// worker r, and sample i of it is number i plus the sizes of the parts before. Each batch has samples of
/// every part in proportion to its size, so all parts end with the last batch, and every sample is used once
/// in an epoch. The order of each part is a SampleOrder.
class SpreadSlice : public EqualBatches {
 public:
  /// `own`: this worker's part. Throws Error (user) for a batch below 1, or no samples in all parts.
  SpreadSlice(std::vector<int64_t> parts, size_t own, int64_t global_batch, uint64_t seed, bool shuffle);

 private:
  std::vector<int64_t> samples_of(uint32_t epoch, int64_t first, int64_t last) const override;
  int64_t own_before(int64_t position) const;

  std::vector<int64_t> parts_;
  size_t own_;
  int64_t first_id_;  ///< of the own part
  SampleOrder order_;
};

/// The worker's part of every batch of `batch` samples, in the data's order: for evaluation and prediction.
class WholeBatch : public FixedSlice {
 public:
  WholeBatch(int64_t size, int64_t batch, Part part = {}) : FixedSlice(size, batch, 0, false, part) {}
};

/// Parts of global batches, in the order in which they are leased (telar/data/streams/lease_book.h): step i
/// is the i-th part added. The global order and the batches are those of FixedSlice.
class LeasedParts : public Assignment {
 public:
  /// `parts`: number of equal parts of each global batch. Throws Error (user) like FixedSlice.
  LeasedParts(int64_t size, int64_t global_batch, uint64_t seed, bool shuffle, int64_t parts,
              int64_t together = 1);

  /// Removes all parts.
  void clear();
  /// Adds part `part` of the global batch `step`.
  void add(int64_t step, int64_t part);

  int64_t steps(uint32_t epoch) const override;
  int64_t batch_samples(uint32_t epoch, int64_t step) const override;
  std::vector<int64_t> samples(uint32_t epoch, int64_t step) const override;

 private:
  std::pair<int64_t, int64_t> entry(int64_t index) const;

  std::vector<std::unique_ptr<FixedSlice>> parts_;
  mutable std::mutex mutex_;                          ///< guards entries_
  std::vector<std::pair<int64_t, int64_t>> entries_;  ///< step and part
};

}  // namespace telar
