#pragma once

#include "telar/device/cpu/lowering.h"

namespace telar::cpu {

/// The values of a tensor in f32 and plain layout. Those of a parameter are not rounded to bf16 before.
RegionId f32_region(Lowering& lowering, ValueId value);
RegionId f32_temporary(Lowering& lowering, const Shape& shape);

/// Memory in f32 and plain layout for a result. Call `finish` when it has been written: it converts a bf16
/// result.
struct F32Result {
  F32Result(Lowering& lowering, ValueId of);
  void finish(Lowering& lowering) const;
  ValueId value;
  bool converts;
  RegionId region;
};

}  // namespace telar::cpu
