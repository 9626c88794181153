#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/loops/values.h"

namespace telar::cuda {

namespace {

void lower_convert(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  if (lowering.graph().value(x).kind == ValueKind::parameter) {
    lowering.define_converted_parameter(y, x);  // in the layout that its reader needs
    return;
  }
  const RegionId from = lowering.region(x);
  const RegionId to = lowering.define(y, lowering.layout(x));
  lowering.add({from}, {to},
               [count = lowering.shape(x).elements(), stream = lowering.gpu().stream(),
                of = lowering.type(x).dtype, into = lowering.type(y).dtype](const Pointers& p) {
                 check(convert_values(p[0], of, p[1], into, count, stream), "converting values");
               });
}

}  // namespace

void register_convert(Kernels& kernels) { kernels.add("convert", lower_convert); }

}  // namespace telar::cuda
