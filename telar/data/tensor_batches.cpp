#include "telar/data/tensor_batches.h"

#include <cstring>
#include <set>
#include <utility>

#include "telar/core/error.h"

namespace telar {

namespace {

std::vector<BatchTensor> forms_of(const std::vector<SampleTensor>& tensors) {
  std::vector<BatchTensor> forms;
  for (const SampleTensor& tensor : tensors) forms.push_back(tensor.form);
  return forms;
}

/// The number of samples of a tensor.
int64_t count_of(const SampleTensor& tensor) {
  const size_t each = tensor.form.sample_bytes();
  if (each == 0 || tensor.values.size() % each != 0)
    throw user_error("the tensor '{}' has {} bytes, which is no whole number of samples of {} bytes",
                     tensor.form.name, tensor.values.size(), each);
  return static_cast<int64_t>(tensor.values.size() / each);
}

int64_t count_of(const std::vector<SampleTensor>& tensors) {
  if (tensors.empty()) throw user_error("batches need at least 1 tensor");
  std::set<std::string> names;
  const int64_t count = count_of(tensors.front());
  for (const SampleTensor& tensor : tensors) {
    if (!names.insert(tensor.form.name).second)
      throw user_error("two tensors have the name '{}'", tensor.form.name);
    if (count_of(tensor) != count)
      throw user_error("'{}' has {} samples, but '{}' has {}", tensors.front().form.name, count,
                       tensor.form.name, count_of(tensor));
  }
  return count;
}

}  // namespace

TensorBatches::TensorBatches(std::vector<SampleTensor> tensors, const Assignment& assignment)
    : AssignedBatches(forms_of(tensors), count_of(tensors), assignment), tensors_(std::move(tensors)) {}

void TensorBatches::read_samples(std::span<const int64_t> samples, Batch& batch) const {
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const size_t each = tensors_[t].form.sample_bytes();
    for (size_t i = 0; i < samples.size(); ++i)
      std::memcpy(batch.data(t) + i * each,
                  tensors_[t].values.data() + static_cast<size_t>(samples[i]) * each, each);
  }
}

}  // namespace telar
