#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace telar {

/// Who works on which samples. The loader asks it and computes nothing itself. Safe to ask from several
/// threads.
class Assignment {
 public:
  virtual ~Assignment() = default;
  /// Steps (global batches) in an epoch.
  virtual int64_t steps(uint32_t epoch) const = 0;
  /// How many samples the global batch of a step (0 … steps-1) has.
  virtual int64_t batch_samples(uint32_t epoch, int64_t step) const = 0;
  /// This worker's samples of that batch; possibly none.
  virtual std::vector<uint32_t> samples(uint32_t epoch, int64_t step) const = 0;
};

/// A worker's part of each global batch: from `begin` to `end` of `of` shares. With `of` the batch size these
/// are counts of samples; worker w of n equal ones is {w, w + 1, n}. Parts that join without gap or overlap
/// do so in every batch, a smaller last one too.
struct Part {
  int64_t begin = 0;
  int64_t end = 1;
  int64_t of = 1;

  /// Where the part begins and ends in a batch of `samples`.
  int64_t first(int64_t samples) const { return samples * begin / of; }
  int64_t last(int64_t samples) const { return samples * end / of; }
};

/// A fixed part of every global batch. The global order of an epoch is a permutation of all samples that
/// depends on seed and epoch alone, the same on every worker, or the data's own order without `shuffle`. It
/// is cut into batches of `global_batch`; the last one is smaller when the samples do not divide, never
/// dropped. With `together` above 1 pieces of so many samples that follow each other in the data stay together, in their order, and
/// the pieces are permuted (a smaller last one stays the last).
class FixedSlice : public Assignment {
 public:
  /// Throws Error (user) for a batch or `together` below 1, no samples, or a part outside its shares.
  FixedSlice(int64_t size, int64_t global_batch, uint64_t seed, bool shuffle, Part part = {},
             int64_t together = 1);

  int64_t steps(uint32_t epoch) const override;
  int64_t batch_samples(uint32_t epoch, int64_t step) const override;
  std::vector<uint32_t> samples(uint32_t epoch, int64_t step) const override;

 private:
  using Order = std::shared_ptr<const std::vector<uint32_t>>;
  Order order(uint32_t epoch) const;

  int64_t size_;
  int64_t global_batch_;
  uint64_t seed_;
  bool shuffle_;
  Part part_;
  int64_t together_;
  mutable std::mutex mutex_;  ///< guards the order of the epoch that was asked for last
  mutable uint32_t ordered_epoch_ = 0;
  mutable Order order_;
};

/// The part of every batch of `batch` samples, in the data's order: evaluation and prediction.
class WholeBatch : public FixedSlice {
 public:
  WholeBatch(int64_t size, int64_t batch, Part part = {}) : FixedSlice(size, batch, 0, false, part) {}
};

/// Parts of global batches as they are leased (telar/data/lease_book.h): the i-th step is the i-th part that was added. The global
/// order and the batches are those of FixedSlice.
class LeasedParts : public Assignment {
 public:
  /// `parts`: equal ones of each global batch. Throws Error (user) like FixedSlice.
  LeasedParts(int64_t size, int64_t global_batch, uint64_t seed, bool shuffle, int64_t parts,
              int64_t together = 1);

  /// Forgets what was added.
  void clear();
  /// Part `part` of the global batch `step`.
  void add(int64_t step, int64_t part);

  int64_t steps(uint32_t epoch) const override;
  int64_t batch_samples(uint32_t epoch, int64_t step) const override;
  std::vector<uint32_t> samples(uint32_t epoch, int64_t step) const override;

 private:
  std::pair<int64_t, int64_t> entry(int64_t index) const;

  std::vector<std::unique_ptr<FixedSlice>> parts_;
  mutable std::mutex mutex_;                          ///< guards entries_
  std::vector<std::pair<int64_t, int64_t>> entries_;  ///< step and part
};

}  // namespace telar
