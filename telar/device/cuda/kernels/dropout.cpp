#include "telar/graph/ops/dropout.h"

#include "telar/core/error.h"
#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/loops/dropout.h"

namespace telar::cuda {

namespace {

void lower_dropout(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  const Shape& shape = lowering.shape(x);
  if (dropout_begin(node.attributes) != 0)
    throw run_error("layer '{}': dropout of a part of the features runs on CPUs only", node.scope);
  const std::vector<RegionId> reads{lowering.plain_region(x), lowering.plain_region(node.inputs[1]),
                                    lowering.plain_region(node.inputs[2])};
  const RegionId to =
      lowering.layout(x) == Layout::plain ? lowering.define_in_place(y, x) : lowering.define_plain(y);
  lowering.add(reads, {to},
               [constants = dropout_constants(node.attributes), dtype = lowering.dtype(x), samples = shape[0],
                per_sample = shape.elements_per_item(), stream = lowering.stream()](const Pointers& p) {
                 check(drop(constants, p[0], p.get<const int32_t>(1), p.get<const int32_t>(2), p[3], dtype,
                            samples, per_sample, stream),
                       "dropout");
               });
}

}  // namespace

void register_dropout(Kernels& kernels) { kernels.add("dropout", lower_dropout); }

}  // namespace telar::cuda
