#include "telar/device/cuda/loops/gather.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/graph/ops/gather.h"

namespace telar::cuda {

namespace {

Moves moves_of(const Lowering& lowering, const Node& node, ValueId x, ValueId indices) {
  const GatherExtents of = gather_extents(node.op->name(), lowering.shape(x), lowering.shape(indices),
                                          static_cast<size_t>(node.attributes.integer("axis")));
  return {of.outer, of.items, of.inner, of.extent, of.outer_indices, of.one_for_inner};
}

void lower_gather(Lowering& lowering, const Node& node) {
  const Moves moves = moves_of(lowering, node, node.inputs[0], node.inputs[1]);
  const std::vector<RegionId> reads{lowering.plain_region(node.inputs[0]),
                                    lowering.plain_region(node.inputs[1])};
  lowering.add(reads, {lowering.define_plain(node.outputs[0])},
               [moves, stream = lowering.stream()](const Pointers& p) {
                 check(gather(p.get<const float>(0), p.get<const int32_t>(1), p.get<float>(2), moves, stream),
                       "a gather");
               });
}

void lower_scatter_add(Lowering& lowering, const Node& node) {
  const Moves moves = moves_of(lowering, node, node.outputs[0], node.inputs[0]);
  const std::vector<RegionId> reads{lowering.plain_region(node.inputs[0]),
                                    lowering.plain_region(node.inputs[1])};
  lowering.add(
      reads, {lowering.define_plain(node.outputs[0])},
      [moves, stream = lowering.stream()](const Pointers& p) {
        check(scatter_add(p.get<const int32_t>(0), p.get<const float>(1), p.get<float>(2), moves, stream),
              "a sum of what has the same position");
      });
}

}  // namespace

void register_gather(Kernels& kernels) {
  kernels.add("gather", lower_gather);
  kernels.add("scatter_add", lower_scatter_add);
}

}  // namespace telar::cuda
