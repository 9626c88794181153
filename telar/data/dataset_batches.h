#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "telar/data/assigned_batches.h"
#include "telar/data/dataset.h"

namespace telar {

/// The tensors of a batch of such samples: "x" and "label".
std::vector<BatchTensor> tensors_of(const SampleSpec& spec);

/// The batches of a dataset. Each has "x", the features, and "label", the classes (i32) or targets (f32).
/// Dataset and assignment must outlive it.
///
///     const FixedSlice assignment(data.size(), 32, seed, true);
///     const DatasetBatches batches(data, assignment, seed);
///     Batch batch(batches.tensors());
///     batches.read(batches.begin(epoch), batch);
class DatasetBatches final : public AssignedBatches {
 public:
  /// `seed`: of the augmentation.
  DatasetBatches(const Dataset& data, const Assignment& assignment, uint64_t seed = 0);

 private:
  void read_samples(std::span<const int64_t> samples, Batch& batch) const override;

  const Dataset& data_;
  uint64_t seed_;
};

}  // namespace telar
