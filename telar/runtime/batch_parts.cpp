#include "telar/runtime/batch_parts.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/simd.h"
#include "telar/data/assignment.h"
#include "telar/runtime/shares.h"

namespace telar {

namespace {

constexpr std::string_view kSampleIds = "sample";

/// NaNs and infinities have all bits of the exponent. The largest of the numbers' bits tells.
TELAR_FOR_EACH_CPU
bool has_non_finite(const int32_t* bits, int64_t count) {
  constexpr int32_t kNoSign = 0x7fffffff;
  constexpr int32_t kInfinity = 0x7f800000;
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, bits[i] & kNoSign);
  return largest >= kInfinity;
}

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

bool has_non_finite(const BatchView& batch, const SampleInputs& inputs) {
  return !batch.again && std::ranges::any_of(batch.inputs, [&](const BatchInput& input) {
    const auto known = inputs.find(input.name);
    if (known == inputs.end() || input.data == nullptr || known->second.dtype != DType::f32) return false;
    const auto bytes = static_cast<int64_t>(known->second.sample_bytes()) * batch.size;
    return has_non_finite(static_cast<const int32_t*>(input.data), bytes / 4);
  });
}

BatchView slice(const BatchView& batch, int64_t first, int64_t size, const SampleInputs& inputs) {
  BatchView part{size, {}, batch.sample == nullptr ? nullptr : batch.sample + first, batch.again};
  part.non_finite = batch.non_finite;
  for (const BatchInput& input : batch.inputs) {
    const auto known = inputs.find(input.name);
    if (known == inputs.end() || input.data == nullptr) continue;
    const size_t offset = known->second.sample_bytes() * static_cast<size_t>(first);
    part.inputs.push_back({known->first, static_cast<const std::byte*>(input.data) + offset});
  }
  return part;
}

std::vector<BatchView> split_batch(const BatchView& batch, const SampleInputs& inputs,
                                   const std::vector<double>& shares, int64_t least) {
  std::vector<BatchView> parts;
  int64_t begin = 0;
  for (const int64_t size : split_by_shares(batch.size, shares, least)) {
    parts.push_back(slice(batch, begin, size, inputs));
    begin += size;
  }
  return parts;
}

std::vector<int64_t> samples_of_shares(int64_t samples, int64_t parts, int64_t each, int64_t least) {
  const std::vector<double> equal(static_cast<size_t>(each), 1.0);
  std::vector<int64_t> all;
  for (int64_t p = 0; p < parts; ++p) {
    const Part part{p * each, (p + 1) * each, parts * each, least};
    const int64_t of_part = part.last(samples) - part.first(samples);
    for (const int64_t share : split_by_shares(of_part, equal, least)) all.push_back(share);
  }
  return all;
}

}  // namespace telar
