#include "telar/device/cuda/loops/order.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"

namespace telar::cuda {

namespace {

void lower_order(Lowering& lowering, const Node& node) {
  const Shape& x = lowering.shape(node.inputs[0]);
  const auto axis = static_cast<size_t>(node.attributes.integer("axis"));
  OrderedRows rows{x.elements() / x[axis], x[axis], 1, node.attributes.integer("count"),
                   node.attributes.flag("descending")};
  for (size_t i = axis + 1; i < x.rank(); ++i) rows.step *= x[i];
  lowering.add({lowering.plain_region(node.inputs[0])}, {lowering.define_plain(node.outputs[0])},
               [rows, stream = lowering.stream()](const Pointers& p) {
                 check(order(p.get<const float>(0), p.get<int32_t>(1), rows, stream), "an order");
               });
}

}  // namespace

void register_order(Kernels& kernels) { kernels.add("order", lower_order); }

}  // namespace telar::cuda
