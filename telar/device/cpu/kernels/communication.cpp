#include <algorithm>

#include "telar/device/cpu/kernels.h"

namespace telar::cpu {

namespace {

void lower_reduce_bucket(Lowering& lowering, const Node& /*node*/) { lowering.host(-1); }

void lower_all_gather(Lowering& lowering, const Node& node) {
  const int64_t length = lowering.shape(node.inputs[0])[0];
  const RegionId rows = lowering.define_plain(node.outputs[0]);
  // The device does not know its rank: its row is copied to the front, and the host moves it to its position.
  lowering.function({lowering.plain_region(node.inputs[0])}, {rows},
                    [=](const Pointers& p) { std::copy_n(p.get<const float>(0), length, p.get<float>(1)); });
  lowering.host(rows);
}

void lower_exchange(Lowering& lowering, const Node& node) {
  std::vector<RegionId> from;
  std::vector<RegionId> to;
  for (const ValueId id : node.inputs) from.push_back(lowering.plain_region(id));
  for (const ValueId id : node.outputs) to.push_back(lowering.define_plain(id));
  lowering.host(from, to);
}

}  // namespace

void register_communication(Kernels& kernels) {
  kernels.add("all_gather", lower_all_gather);
  kernels.add("all_gather_parameters", lower_exchange);
  kernels.add("all_gather_samples", lower_exchange);
  kernels.add("features_to_samples", lower_exchange);
  kernels.add("reduce_bucket", lower_reduce_bucket);
  kernels.add("reduce_scatter_gradients", lower_exchange);
  kernels.add("reduce_scatter_samples", lower_exchange);
  kernels.add("samples_to_features", lower_exchange);
}

}  // namespace telar::cpu
