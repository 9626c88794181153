#include "telar/graph/ops/random_normal.h"

#include <algorithm>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

constexpr int64_t kDrawsAThread = 512;  // elements for each thread; each costs about fifty multiplications

void draw(float* y, int64_t count, const int32_t* sample, const NormalRule& rule) {
  for (int64_t i = 0; i < count; i += 2) {
    const Philox::Counter words = rule.philox(rule.counter(static_cast<uint64_t>(i) / 2, sample));
    const auto pair = normal_pair(words[0], words[1]);
    y[i] = pair[0];
    if (i + 1 < count) y[i + 1] = pair[1];
  }
}

void lower_random_normal(Lowering& lowering, const Node& node) {
  const ValueId y = node.outputs[0];
  const Shape& shape = lowering.shape(y);
  lowering.function({lowering.plain_region(node.inputs[0]), lowering.plain_region(node.inputs[1])},
                    {lowering.define_plain(y)},
                    [stream = normal_stream(node.attributes), samples = shape[0],
                     per_sample = shape.elements_per_item()](const Pointers& p) {
                      const NormalRule rule(stream, p.get<const int32_t>(1));
                      const auto* sample = p.get<const int32_t>(0);
                      auto* numbers = p.get<float>(2);
                      parallel_for(samples, std::max<int64_t>(1, kDrawsAThread / per_sample),
                                   [&](int64_t begin, int64_t end) {
                                     for (int64_t n = begin; n < end; ++n)
                                       draw(numbers + n * per_sample, per_sample, sample + 2 * n, rule);
                                   });
                    });
}

}  // namespace

void register_random_normal(Kernels& kernels) { kernels.add("random_normal", lower_random_normal); }

}  // namespace telar::cpu
