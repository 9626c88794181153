#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

// Floats for each thread: with fewer, a second thread costs more than it saves.
constexpr int64_t kSumsAThread = 16384;

void add_scaled(float* to, const float* from, int64_t count, float factor) {
  parallel_for(count, kSumsAThread, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] += factor * from[i];
  });
}

void copy_scaled(float* to, const float* from, int64_t count, float factor) {
  parallel_for(count, kSumsAThread, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = factor * from[i];
  });
}

void lower_accumulate(Lowering& lowering, const Node& node) {
  const ValueId buffer = node.inputs[0];
  const ValueId value = node.inputs[1];
  if (lowering.is_metric(buffer)) {
    const RegionId metric = lowering.metric_region(buffer);
    lowering.function({lowering.plain_region(value)}, {metric},
                      [count = lowering.shape(value).elements()](const Pointers& p) {
                        add_scaled(p.get<float>(1), p.get<float>(0), count, 1);
                      });
    return;
  }
  if (lowering.written_directly(value)) return;
  const RegionId gradient = lowering.gradient_region(buffer);
  const Desc desc = lowering.layout_of(gradient);
  const bool overwrite = lowering.accumulation() == Accumulation::overwrite;
  const bool weighted = node.inputs.size() > 2;
  if (overwrite && !weighted) {
    lowering.reorder(lowering.region(value), gradient);
    return;
  }
  const float factor = weighted ? static_cast<float>(lowering.shape(node.inputs[2])[0]) : 1.0F;
  const auto count = static_cast<int64_t>(desc.get_size() / sizeof(float));
  lowering.function({lowering.region(value, desc)}, {gradient}, [=](const Pointers& p) {
    if (overwrite) {
      copy_scaled(p.get<float>(1), p.get<float>(0), count, factor);
    } else {
      add_scaled(p.get<float>(1), p.get<float>(0), count, factor);
    }
  });
}

}  // namespace

void register_accumulate(Kernels& kernels) { kernels.add("accumulate", lower_accumulate); }

}  // namespace telar::cpu
