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

/// A lowered graph with its memory plan. See telar/device/device.h. Contexts have memory of their own for
/// their inputs.
class CudaExecutable final : public Executable {
 public:
  /// Throws Error (run) naming what a GPU cannot compute.
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

  /// Lets each step choose its algorithm, in the memory of the first context.
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
  std::map<std::string, TensorLayout>
      delivered_layouts_;  // no values go from graph to graph: a GPU is no stage
};

}  // namespace telar::cuda
