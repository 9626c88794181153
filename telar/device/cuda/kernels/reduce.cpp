#include "telar/core/error.h"
#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels/kernel_table.h"
#include "telar/device/cuda/kernels/loops.h"

namespace telar::cuda {

/// The sum of a whole tensor, which does not ask in which layout it lies.
void lower_reduce_sum(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  if (lowering.shape(y).elements() != 1) {
    throw run_error("a GPU cannot compute reduce_sum of some axes yet ({} to {}), only that of all",
                    lowering.shape(x).str(), lowering.shape(y).str());
  }
  const SlotId from = lowering.slot(x);
  const SlotId pieces = lowering.temporary(kMostPieces * sizeof(float));
  lowering.add({from}, {lowering.define(y, Layout::plain), pieces},
               [count = lowering.shape(x).elements(), dtype = lowering.type(x).dtype,
                stream = lowering.gpu().stream()](const Pointers& p) {
                 check(sum_values(p[0], dtype, count, reinterpret_cast<float*>(p[2]), p[1], stream),
                       "summing values");
               });
}

}  // namespace telar::cuda
