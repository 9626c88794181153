#include "telar/data/dataset_batches.h"

namespace telar {

namespace {

/// A sample is announced to the dataset while the one that is this many samples earlier is read.
constexpr size_t kAhead = 2;

}  // namespace

std::vector<BatchTensor> tensors_of(const SampleSpec& spec) {
  return {{"x", spec.dtype, spec.features}, {"label", spec.label_dtype(), spec.labels}};
}

DatasetBatches::DatasetBatches(const Dataset& data, const Assignment& assignment, uint64_t seed)
    : AssignedBatches(tensors_of(data.spec()), data.size(), assignment), data_(data), seed_(seed) {}

void DatasetBatches::read_samples(std::span<const int64_t> samples, Batch& batch) const {
  const SampleKey key{seed_, batch.epoch};
  const size_t features = data_.spec().feature_bytes();
  const size_t labels = data_.spec().label_bytes();
  for (size_t i = 0; i < samples.size(); ++i) {
    if (i + kAhead < samples.size()) data_.expect(samples[i + kAhead]);
    data_.read(samples[i], key, {batch.data(0) + i * features, features},
               {batch.data(1) + i * labels, labels});
  }
}

}  // namespace telar
