#include "telar/graph/ops/random_normal.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/loops/random_normal.h"

namespace telar::cuda {

namespace {

void lower_random_normal(Lowering& lowering, const Node& node) {
  const ValueId y = node.outputs[0];
  const Shape& shape = lowering.shape(y);
  lowering.add({lowering.plain_region(node.inputs[0]), lowering.plain_region(node.inputs[1])},
               {lowering.define_plain(y)},
               [rule_stream = normal_stream(node.attributes), samples = shape[0],
                per_sample = shape.elements_per_item(), stream = lowering.stream()](const Pointers& p) {
                 check(draw_normal(rule_stream, p.get<const int32_t>(0), p.get<const int32_t>(1),
                                   p.get<float>(2), samples, per_sample, stream),
                       "random numbers");
               });
}

}  // namespace

void register_random_normal(Kernels& kernels) { kernels.add("random_normal", lower_random_normal); }

}  // namespace telar::cuda
