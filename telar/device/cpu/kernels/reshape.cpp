#include "telar/device/cpu/kernels.h"

namespace telar::cpu {

namespace {

void lower_reshape(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  if (lowering.shape(x) == lowering.shape(y)) {
    const RegionId same = lowering.region(x);
    lowering.define_alias(y, same, lowering.layout(x));
    return;
  }
  lowering.define_alias(y, lowering.plain_region(x), plain(lowering.type(y).dtype, lowering.shape(y)));
}

void lower_convert(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  if (lowering.graph().value(x).kind == ValueKind::parameter) {
    lowering.define_converted_parameter(y, x);  // each reader converts and reorders in one pass
    return;
  }
  const RegionId from = lowering.region(x);
  lowering.reorder(from, lowering.define(y, with_type(lowering.layout(x), lowering.type(y).dtype)));
}

void lower_constant(Lowering& lowering, const Node& node) {
  const int64_t count = lowering.shape(node.outputs[0]).elements();
  const auto value = static_cast<float>(node.attributes.real("value"));
  lowering.function({}, {lowering.define_plain(node.outputs[0])},
                    [=](const Pointers& p) { std::fill_n(p.get<float>(0), count, value); });
}

}  // namespace

void register_reshape(Kernels& kernels) {
  kernels.add("constant", lower_constant);
  kernels.add("fill", lower_constant);
  kernels.add("convert", lower_convert);
  kernels.add("reshape", lower_reshape);
  kernels.add("reshape_like", lower_reshape);
  kernels.add("stop_gradient", lower_reshape);
}

}  // namespace telar::cpu
