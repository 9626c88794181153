#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "telar/device/cuda/lowering.h"
#include "telar/device/lowered_executable.h"

namespace telar::cuda {

/// A graph lowered for a GPU. See telar/device/device.h. Each context has its own memory for inputs.
class CudaExecutable final : public LoweredExecutable<Target> {
 public:
  /// Throws Error (run) naming an operation that a GPU cannot compute.
  CudaExecutable(const Graph& graph, std::shared_ptr<Gpu> gpu, const CompileOptions& options);
  std::unique_ptr<Context> bind(const ArenaLayout& arena, const Bindings& bindings) const override;

 private:
  friend class CudaContext;

  /// Every step with several algorithms chooses one, using the memory of the first context.
  void choose_algorithms(const std::vector<std::byte*>& pointers) const;

  std::shared_ptr<Gpu> gpu_;
  mutable std::mutex choosing_;
  mutable bool chosen_ = false;  ///< guarded by choosing_
};

}  // namespace telar::cuda
