#include "telar/runtime/batch_parts.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/runtime/shares.h"

namespace telar {

namespace {

constexpr std::string_view kSampleIds = "sample";

}  // namespace

SampleInputs sample_inputs(const Graph& graph) {
  SampleInputs inputs;
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::input || !value.batched || value.name == kSampleIds) continue;
    std::vector<int64_t> dims = value.type.shape.dims();
    dims.erase(dims.begin());
    inputs.try_emplace(value.name, BatchTensor{value.name, value.type.dtype, Shape(std::move(dims))});
  }
  return inputs;
}

void require_inputs(const BatchView& batch, const SampleInputs& inputs) {
  if (batch.size == 0 || batch.again) return;
  for (const auto& [name, input] : inputs) {
    const auto given = std::ranges::find(batch.inputs, name, &BatchInput::name);
    if (given == batch.inputs.end() || given->data == nullptr)
      throw run_error("the batch has no '{}', which is an input of the model", name);
  }
}

BatchView slice(const BatchView& batch, int64_t first, int64_t size, const SampleInputs& inputs) {
  BatchView part{size, {}, batch.sample == nullptr ? nullptr : batch.sample + first, batch.again};
  for (const BatchInput& input : batch.inputs) {
    const auto known = inputs.find(input.name);
    if (known == inputs.end() || input.data == nullptr) continue;
    const size_t offset = known->second.sample_bytes() * static_cast<size_t>(first);
    part.inputs.push_back({known->first, static_cast<const std::byte*>(input.data) + offset});
  }
  return part;
}

std::vector<BatchView> split_batch(const BatchView& batch, const SampleInputs& inputs,
                                   const std::vector<double>& shares) {
  std::vector<BatchView> parts;
  int64_t begin = 0;
  for (const int64_t size : split_by_shares(batch.size, shares)) {
    parts.push_back(slice(batch, begin, size, inputs));
    begin += size;
  }
  return parts;
}

std::vector<int64_t> samples_of_shares(int64_t samples, int64_t parts, int64_t each) {
  const std::vector<double> equal(static_cast<size_t>(each), 1.0);
  std::vector<int64_t> all;
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t of_part = samples * (p + 1) / parts - samples * p / parts;
    for (const int64_t share : split_by_shares(of_part, equal)) all.push_back(share);
  }
  return all;
}

}  // namespace telar
