#include <cmath>
#include <limits>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

constexpr int64_t kConversionsAThread = 1 << 14;

int32_t index_of(float number) {
  constexpr float kBeyond = 2147483648.0F;  // 2³¹; no f32 lies between it and the greatest i32
  const bool fits = number >= -kBeyond && number < kBeyond;
  return fits ? static_cast<int32_t>(std::nearbyint(number)) : std::numeric_limits<int32_t>::min();
}

template <typename From, typename To, typename Convert>
void lower_conversion(Lowering& lowering, const Node& node, Convert convert) {
  const int64_t count = lowering.shape(node.inputs[0]).elements();
  lowering.function({lowering.plain_region(node.inputs[0])}, {lowering.define_plain(node.outputs[0])},
                    [=](const Pointers& p) {
                      const auto* x = p.get<const From>(0);
                      auto* y = p.get<To>(1);
                      parallel_for(count, kConversionsAThread, [=](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) y[i] = convert(x[i]);
                      });
                    });
}

}  // namespace

void register_whole_numbers(Kernels& kernels) {
  kernels.add("to_indices", [](Lowering& lowering, const Node& node) {
    lower_conversion<float, int32_t>(lowering, node, index_of);
  });
  kernels.add("to_numbers", [](Lowering& lowering, const Node& node) {
    lower_conversion<int32_t, float>(lowering, node, [](int32_t index) { return static_cast<float>(index); });
  });
}

}  // namespace telar::cpu
