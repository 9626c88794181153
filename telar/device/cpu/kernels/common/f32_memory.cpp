#include "telar/device/cpu/kernels/common/f32_memory.h"

#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

RegionId f32_region(Lowering& lowering, ValueId value) {
  const ValueId source = lowering.converted_parameter(value).value_or(value);
  return lowering.region(source, plain(DType::f32, lowering.shape(source)));
}

RegionId f32_temporary(Lowering& lowering, const Shape& shape) {
  return lowering.temporary(plain(DType::f32, shape));
}

F32Result::F32Result(Lowering& lowering, ValueId of)
    : value(of),
      converts(lowering.type(of).dtype != DType::f32),
      region(converts ? f32_temporary(lowering, lowering.shape(of)) : lowering.define_plain(of)) {}

void F32Result::finish(Lowering& lowering) const {
  if (converts) lowering.reorder(region, lowering.define_plain(value));
}

}  // namespace telar::cpu
