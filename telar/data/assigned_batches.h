#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "telar/data/assignment.h"
#include "telar/data/batch_source.h"

namespace telar {

/// Batches of samples that can be read in any order, as an assignment divides them. A sample's id is its
/// number; a position is an epoch and a step of it.
class AssignedBatches : public BatchSource {
 public:
  const std::vector<BatchTensor>& tensors() const final { return tensors_; }
  Position begin(uint32_t pass) const final;
  std::optional<Position> find(uint32_t pass, int64_t batches) const final;
  std::optional<PassSize> size(uint32_t pass) const final;
  bool at_end(const Position& position) const final;
  std::optional<Position> after(const Position& position) const final;
  using BatchSource::read;
  void read(const Position& position, Batch& batch, const std::stop_token& stop) const final;

 protected:
  /// `samples`: how many there are. The assignment must outlive this object.
  AssignedBatches(std::vector<BatchTensor> tensors, int64_t samples, const Assignment& assignment);
  /// Writes the tensors of these samples into the batch, which has their number, epoch and ids.
  virtual void read_samples(std::span<const int64_t> samples, Batch& batch) const = 0;

 private:
  std::vector<BatchTensor> tensors_;
  int64_t samples_;
  const Assignment& assignment_;
};

}  // namespace telar
