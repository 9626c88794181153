#pragma once

#include "telar/device/cpu/lowering.h"
#include "telar/device/lowered_executable.h"

namespace telar::cpu {

/// A graph lowered for a CPU. See telar/device/device.h.
class CpuExecutable final : public LoweredExecutable<Target> {
 public:
  CpuExecutable(const Graph& graph, const CompileOptions& options);
  std::unique_ptr<Context> bind(const ArenaLayout& arena, const Bindings& bindings) const override;

 private:
  friend class CpuContext;

  bool hides_non_finite_;  ///< its kernels may make numbers of NaN and infinities
};

}  // namespace telar::cpu
