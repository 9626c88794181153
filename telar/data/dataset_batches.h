#pragma once

#include <cstdint>
#include <vector>

#include "telar/data/assignment.h"
#include "telar/data/batch_source.h"
#include "telar/data/dataset.h"

namespace telar {

/// The batches of samples that can be read in any order, as an assignment divides them. Each batch has "x",
/// the features, and "label", the classes (i32) or targets (f32); ids are indices in the dataset. A position
/// is an epoch and a step of it. Dataset and assignment must outlive it.
///
///     const FixedSlice assignment(data.size(), 32, seed, true);
///     const DatasetBatches batches(data, assignment, seed);
///     Batch batch(batches.tensors());
///     batches.read(batches.begin(epoch), batch);
class DatasetBatches : public BatchSource {
 public:
  /// `seed`: of the augmentation.
  DatasetBatches(const Dataset& data, const Assignment& assignment, uint64_t seed = 0);

  const std::vector<BatchTensor>& tensors() const override { return tensors_; }
  Position begin(uint32_t pass) const override;
  std::optional<Position> find(uint32_t pass, int64_t batches) const override;
  std::optional<PassSize> size(uint32_t pass) const override;
  bool at_end(const Position& position) const override;
  std::optional<Position> after(const Position& position) const override;
  using BatchSource::read;
  void read(const Position& position, Batch& batch, const std::stop_token& stop) const override;

 private:
  const Dataset& data_;
  const Assignment& assignment_;
  uint64_t seed_;
  std::vector<BatchTensor> tensors_;
};

}  // namespace telar
