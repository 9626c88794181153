#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "telar/device/cuda/lowering.h"
#include "telar/device/device.h"

namespace telar::cuda {

/// A lowered graph with its memory plan. See telar/device/device.h. Each context has its own memory for
/// inputs.
class CudaExecutable final : public Executable {
 public:
  /// Throws Error (run) naming an operation that a GPU cannot compute.
  CudaExecutable(const Graph& graph, std::shared_ptr<Gpu> gpu, const CompileOptions& options);

  const std::vector<std::pair<std::string, TensorLayout>>& parameter_layouts() const override {
    return layouts_;
  }
  size_t activation_bytes() const override { return plan_bytes_; }
  size_t prepared_bytes() const override { return 0; }
  const std::map<std::string, TensorLayout>& delivered_layouts() const override { return delivered_layouts_; }
  std::unique_ptr<Context> bind(const ArenaLayout& arena, const Bindings& bindings) const override;

 private:
  friend class CudaContext;
  struct Output {
    std::string name;
    RegionId region;
  };

  /// Every step with several algorithms chooses one, using the memory of the first context.
  void choose_algorithms(const std::vector<std::byte*>& pointers) const;

  std::shared_ptr<Gpu> gpu_;
  Graph graph_;
  std::vector<Region> regions_;
  std::vector<Step> steps_;
  std::vector<OperationName> names_;  ///< of each step
  std::vector<Output> outputs_;
  size_t plan_bytes_ = 0;
  mutable std::mutex choosing_;
  mutable bool chosen_ = false;  ///< guarded by choosing_
  std::vector<std::pair<std::string, TensorLayout>> layouts_;
  std::vector<std::string> metrics_;
  // Empty: a GPU is not a pipeline stage, so no values are passed between graphs.
  std::map<std::string, TensorLayout> delivered_layouts_;
};

}  // namespace telar::cuda
