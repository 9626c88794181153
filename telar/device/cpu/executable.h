#pragma once

#include "telar/device/cpu/lowering.h"
#include "telar/device/device.h"

namespace telar::cpu {

/// A lowered graph with its memory plan. See telar/device/device.h.
class CpuExecutable final : public Executable {
 public:
  CpuExecutable(const Graph& graph, const CompileOptions& options);

  const std::vector<std::pair<std::string, TensorLayout>>& parameter_layouts() const override {
    return layouts_;
  }
  size_t activation_bytes() const override { return activation_bytes_; }
  size_t prepared_bytes() const override { return prepared_bytes_; }
  const std::map<std::string, TensorLayout>& delivered_layouts() const override { return delivered_layouts_; }
  std::unique_ptr<Context> bind(const ArenaLayout& arena, const Bindings& bindings) const override;

 private:
  OperationName name_of(const Step& step, size_t backward) const;

  friend class CpuContext;
  struct Output {
    std::string name;
    RegionId region;
    TensorType type;
  };

  Graph graph_;
  std::vector<Region> regions_;
  std::vector<Step> steps_;
  std::vector<OperationName> names_;  ///< of each step
  std::vector<std::pair<std::string, TensorLayout>> layouts_;
  std::vector<std::string> metrics_;
  std::vector<Output> outputs_;
  std::map<std::string, TensorLayout> delivered_layouts_;
  size_t activation_bytes_ = 0;
  size_t prepared_bytes_ = 0;
};

}  // namespace telar::cpu
