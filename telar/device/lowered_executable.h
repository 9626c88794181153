#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "telar/core/error.h"
#include "telar/device/device.h"
#include "telar/device/lowering.h"
#include "telar/device/memory_plan.h"
#include "telar/graph/backward_part.h"

namespace telar {

/// A lowered graph with its memory plan, for every device. The device adds how it runs the steps.
template <typename Target>
class LoweredExecutable : public Executable {
 public:
  const std::vector<std::pair<std::string, TensorLayout>>& parameter_layouts() const override {
    return layouts_;
  }
  size_t activation_bytes() const override { return activation_bytes_; }
  size_t prepared_bytes() const override { return prepared_bytes_; }
  const std::map<std::string, TensorLayout>& delivered_layouts() const override { return delivered_layouts_; }

 protected:
  using Layout = typename Target::Layout;
  using Work = typename Target::Work;

  LoweredExecutable(const Graph& graph, const CompileOptions& options)
      : graph_(graph), metrics_(options.metrics) {}

  /// Lowers the graph and plans its memory.
  void lower(GraphLowering<Target>& lowering);
  /// Throws Error (run) when the arenas have other layouts than this executable, or too few bytes are bound.
  void check(const ArenaLayout& arena, const Bindings& bindings) const;
  /// The memory of a region; null for an input, which the context sets.
  std::byte* memory_of(const Region<Layout>& region, const ArenaLayout& arena,
                       const Bindings& bindings) const;
  /// "layer 'fc1' (linear)", for messages about the result of a step.
  std::string describe(const Step<Work>& step) const;
  /// The region of a graph output. Throws Error (run) when there is none.
  RegionId output(const std::string& name) const;

  Graph graph_;
  std::vector<Region<Layout>> regions_;
  std::vector<Step<Work>> steps_;
  std::vector<OperationName> names_;  ///< of each step

 private:
  /// A reorder before the first node or after the last one (an input or output of the graph) has no node.
  OperationName name_of(const Step<Work>& step, size_t backward) const;

  std::vector<std::pair<std::string, RegionId>> outputs_;
  std::vector<std::pair<std::string, TensorLayout>> layouts_;
  std::vector<std::string> metrics_;
  std::map<std::string, TensorLayout> delivered_layouts_;
  size_t activation_bytes_ = 0;
  size_t prepared_bytes_ = 0;
};

template <typename Target>
void LoweredExecutable<Target>::lower(GraphLowering<Target>& lowering) {
  lowering.run();
  std::set<RegionId> kept;
  for (const auto& [name, value] : graph_.outputs()) {
    outputs_.emplace_back(name, lowering.region(value));
    kept.insert(outputs_.back().second);
  }
  layouts_ = lowering.parameter_layouts();
  delivered_layouts_ = lowering.delivered_layouts();
  prepared_bytes_ = lowering.prepared_bytes();
  regions_ = lowering.take_regions();
  steps_ = lowering.take_steps();
  activation_bytes_ = plan_memory(regions_, steps_, kept, Target::kAlignment);
  const size_t backward = backward_begin(graph_);
  for (const Step<Work>& step : steps_) names_.push_back(name_of(step, backward));
}

template <typename Target>
OperationName LoweredExecutable<Target>::name_of(const Step<Work>& step, size_t backward) const {
  const auto& nodes = graph_.nodes();
  if (step.node < 0 || step.node >= static_cast<int>(nodes.size())) return {"", "reorder", false};
  const Node& node = nodes[static_cast<size_t>(step.node)];
  return {node.scope, std::string(node.op->name()) + (step.reorders ? " (reorder)" : ""),
          static_cast<size_t>(step.node) >= backward};
}

template <typename Target>
void LoweredExecutable<Target>::check(const ArenaLayout& arena, const Bindings& bindings) const {
  for (const auto& [name, layout] : layouts_) {
    if (arena.find(name).layout.format != layout.format) {
      throw run_error("parameter '{}' has the layout {} but the graph was compiled for {}", name,
                      arena.find(name).layout.format, layout.format);
    }
  }
  if (bindings.activations.size() < activation_bytes_) {
    throw run_error("the graph needs {} bytes for activations but has only {}", activation_bytes_,
                    bindings.activations.size());
  }
}

template <typename Target>
std::byte* LoweredExecutable<Target>::memory_of(const Region<Layout>& region, const ArenaLayout& arena,
                                                const Bindings& bindings) const {
  std::byte* memory = nullptr;
  switch (region.place) {
    case Place::activation: memory = bindings.activations.data() + region.offset; break;
    case Place::parameter: memory = bindings.parameters + arena.find(region.name).offset; break;
    case Place::gradient: memory = bindings.gradients + arena.find(region.name).offset; break;
    case Place::metric: {
      const auto found = std::find(metrics_.begin(), metrics_.end(), region.name);
      if (found == metrics_.end()) throw run_error("there is no memory for the metric '{}'", region.name);
      memory = reinterpret_cast<std::byte*>(bindings.metrics + (found - metrics_.begin()));
      break;
    }
    case Place::prepared: memory = bindings.prepared + region.offset; break;
    case Place::delivered: {
      const auto found = bindings.delivered->find(region.name);
      if (found == bindings.delivered->end())
        throw run_error("there is no memory for the value '{}'", region.name);
      memory = found->second;
      break;
    }
    case Place::input: return nullptr;
  }
  return memory + region.shift;
}

template <typename Target>
std::string LoweredExecutable<Target>::describe(const Step<Work>& step) const {
  const Node& node = graph_.nodes()[static_cast<size_t>(step.node)];
  return fmt::format("{} ({})", node.scope.empty() ? "the input" : "layer '" + node.scope + "'",
                     node.op->name());
}

template <typename Target>
RegionId LoweredExecutable<Target>::output(const std::string& name) const {
  for (const auto& [known, region] : outputs_) {
    if (known == name) return region;
  }
  throw run_error("the graph has no output '{}'", name);
}

}  // namespace telar
