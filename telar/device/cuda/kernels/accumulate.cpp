#include "telar/device/cuda/loops/accumulate.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"

namespace telar::cuda {

namespace {

void lower_accumulate(Lowering& lowering, const Node& node) {
  const ValueId buffer = node.inputs[0];
  const ValueId value = node.inputs[1];
  const bool metric = lowering.is_metric(buffer);
  if (lowering.written_directly(value)) return;
  const RegionId to = metric ? lowering.metric_region(buffer) : lowering.gradient_region(buffer);
  // A metric accumulates over all runs. In a gradient, the first run of a step may overwrite the old
  // contents.
  const bool adding = metric || lowering.accumulation() == Accumulation::add;
  const float factor = node.inputs.size() > 2 ? static_cast<float>(lowering.shape(node.inputs[2])[0]) : 1.0F;
  lowering.add({lowering.region(value, lowering.layout_of(to))}, {to},
               [=, count = lowering.shape(value).elements(), stream = lowering.stream()](const Pointers& p) {
                 check(
                     accumulate_scaled(p.get<float>(1), p.get<const float>(0), count, factor, adding, stream),
                     "accumulating a gradient");
               });
}

}  // namespace

void register_accumulate(Kernels& kernels) { kernels.add("accumulate", lower_accumulate); }

}  // namespace telar::cuda
