#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"

namespace telar::cuda {

namespace {

void lower_reduce_bucket(Lowering& lowering, const Node& /*node*/) { lowering.host(-1); }

void lower_all_gather(Lowering& lowering, const Node& node) {
  const RegionId row = lowering.plain_region(node.inputs[0]);
  const RegionId rows = lowering.define_plain(node.outputs[0]);
  // The device does not know its rank: its row is copied to the front, and the host moves it to its position.
  lowering.add(
      {row}, {rows},
      [bytes = bytes_of(lowering.type(node.inputs[0])), stream = lowering.stream()](const Pointers& p) {
        check(cudaMemcpyAsync(p[1], p[0], bytes, cudaMemcpyDeviceToDevice, stream), "copying a row");
      });
  lowering.host(rows);
}

}  // namespace

void register_communication(Kernels& kernels) {
  kernels.add("all_gather", lower_all_gather);
  kernels.add("reduce_bucket", lower_reduce_bucket);
}

}  // namespace telar::cuda
