#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels/kernel_table.h"
#include "telar/device/cuda/loops/copies.h"

namespace telar::cuda {

void lower_constant(Lowering& lowering, const Node& node) {
  const ValueId y = node.outputs[0];
  lowering.add(
      {}, {lowering.define_plain(y)},
      [count = lowering.shape(y).elements(), value = static_cast<float>(node.attributes.real("value")),
       stream = lowering.stream()](const Pointers& p) {
        check(fill(p.get<float>(0), count, value, stream), "writing a constant");
      });
}

}  // namespace telar::cuda
