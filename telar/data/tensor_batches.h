#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "telar/data/assigned_batches.h"

namespace telar {

/// A tensor of all samples, in memory.
struct SampleTensor {
  BatchTensor form;
  std::vector<std::byte> values;  ///< [samples, form.shape…], contiguous
};

/// The tensor with these values: f32 of floats, i32 of integers.
template <typename Number>
SampleTensor sample_tensor(std::string name, Shape shape, const std::vector<Number>& values) {
  static_assert(std::is_same_v<Number, float> || std::is_same_v<Number, int32_t>);
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return {{std::move(name), std::is_same_v<Number, float> ? DType::f32 : DType::i32, std::move(shape)},
          {bytes, bytes + values.size() * sizeof(Number)}};
}

/// Batches of samples in memory that have any named tensors: several inputs, labels of any form, weights.
///
///     const FixedSlice assignment(1000, 32, seed, true);
///     const TensorBatches pairs({sample_tensor("x", {1, 28, 28}, first),
///                                sample_tensor("second", {1, 28, 28}, second),
///                                sample_tensor("label", {}, same)}, assignment);
///     trainer.fit(pairs, nullptr);
class TensorBatches final : public AssignedBatches {
 public:
  /// The assignment must outlive this object. Throws Error (user) without tensors, for two of one name, and
  /// unless all are of the same number of samples.
  TensorBatches(std::vector<SampleTensor> tensors, const Assignment& assignment);

 private:
  void read_samples(std::span<const int64_t> samples, Batch& batch) const override;

  std::vector<SampleTensor> tensors_;
};

}  // namespace telar
