#include "telar/graph/ops/dropout.h"

#include <algorithm>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

constexpr int64_t kDropsAThread = 4096;  // elements for each thread; each costs about ten multiplications

float scaled(float value, float scale) { return value * scale; }
uint16_t scaled(uint16_t value, float scale) { return to_bf16(from_bf16(value) * scale); }

/// x and y: elements [first, first + count) of a sample.
template <typename T>
void drop(const T* x, T* y, int64_t first, int64_t count, const int32_t* sample, const DropoutRule& rule) {
  for (int64_t i = first; i < first + count;) {
    const Philox::Counter words = rule.philox(rule.counter(static_cast<uint64_t>(i) / 4, sample));
    const int64_t end = std::min<int64_t>(first + count, i / 4 * 4 + 4);
    for (; i < end; ++i) {
      const bool kept = words[static_cast<size_t>(i % 4)] >= rule.threshold;
      y[i - first] = kept ? scaled(x[i - first], rule.scale) : T{0};
    }
  }
}

template <typename T>
Function dropout_function(const DropoutConstants& constants, int64_t samples, int64_t first,
                          int64_t per_sample) {
  return [=](const Pointers& p) {
    const DropoutRule rule(constants, p.get<const int32_t>(2));
    const auto* x = p.get<const T>(0);
    const auto* sample = p.get<const int32_t>(1);
    auto* y = p.get<T>(3);
    parallel_for(samples, std::max<int64_t>(1, kDropsAThread / per_sample), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n)
        drop(x + n * per_sample, y + n * per_sample, first, per_sample, sample + 2 * n, rule);
    });
  };
}

void lower_dropout(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  const Shape& shape = lowering.shape(x);
  const std::vector<RegionId> reads{lowering.plain_region(x), lowering.plain_region(node.inputs[1]),
                                    lowering.plain_region(node.inputs[2])};
  lowering.define_in_place(y, x, plain(lowering.type(x).dtype, shape));
  const int64_t per_sample = shape.elements_per_item();
  const DropoutConstants constants = dropout_constants(node.attributes);
  const int64_t first = dropout_begin(node.attributes);
  lowering.function(reads, {lowering.region(y)},
                    lowering.type(x).dtype == DType::f32
                        ? dropout_function<float>(constants, shape[0], first, per_sample)
                        : dropout_function<uint16_t>(constants, shape[0], first, per_sample));
}

}  // namespace

void register_dropout(Kernels& kernels) { kernels.add("dropout", lower_dropout); }

}  // namespace telar::cpu
