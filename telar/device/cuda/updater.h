#pragma once

#include <memory>

#include "telar/device/cuda/gpu.h"
#include "telar/device/update_sections.h"

namespace telar::cuda {

/// The update graph as passes over flat memory, one kernel for each section. Ranges must begin and end at
/// multiples of 16 bytes; otherwise throws Error (run). Not thread-safe, like Gpu.
class CudaUpdater final : public Updater {
 public:
  CudaUpdater(const Graph& update, const ArenaLayout& arena, std::shared_ptr<Gpu> gpu);
  ~CudaUpdater() override;

  bool clips() const override { return plan_.max_norm > 0; }
  double sum_of_squares(const UpdateBindings& bindings, size_t begin, size_t end) const override;
  bool apply(const UpdateBindings& bindings, const UpdateScalars& scalars, double sum_of_squares,
             size_t begin, size_t end) const override;

 private:
  void enqueue(const UpdateBindings& bindings, const UpdateScalars& scalars, double sum_of_squares,
               size_t begin, size_t end) const;

  std::shared_ptr<Gpu> gpu_;
  UpdateSections plan_;
  DeviceMemory non_finite_;  // one f32, for callers that pass none
  DeviceMemory squares_;     // partial sums of a section, then the sum of each section, f64
};

}  // namespace telar::cuda
