#include "telar/device/cpu/kernels.h"

namespace telar::cpu {

namespace {

void lower_deliver(Lowering& lowering, const Node& node) {
  lowering.deliver(node.inputs[0], node.attributes.text("name"));
}

void lower_pause(Lowering& lowering, const Node& /*node*/) { lowering.pause(); }

}  // namespace

void register_stage(Kernels& kernels) {
  kernels.add("deliver", lower_deliver);
  kernels.add("pause", lower_pause);
}

}  // namespace telar::cpu
