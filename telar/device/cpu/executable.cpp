#include "telar/device/cpu/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/device/cpu/memory_plan.h"
#include "telar/device/cpu/team.h"
#include "telar/graph/backward_part.h"

namespace telar::cpu {

namespace {

bool is_result(int argument) {
  static constexpr std::array kResults = {DNNL_ARG_DST,          DNNL_ARG_DST_1,        DNNL_ARG_DST_2,
                                          DNNL_ARG_DIFF_SRC,     DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS,
                                          DNNL_ARG_DIFF_SCALE,   DNNL_ARG_DIFF_SHIFT,   DNNL_ARG_MEAN,
                                          DNNL_ARG_DIFF_SRC_ITER};
  return std::find(kResults.begin(), kResults.end(), argument) != kResults.end();
}

bool has_non_finite(const Desc& desc, const void* memory) {
  const size_t bytes = desc.get_size();
  if (desc.data_type() == dnnl::memory::data_type::f32) {
    const auto* values = static_cast<const float*>(memory);
    return std::any_of(values, values + bytes / 4, [](float v) { return !std::isfinite(v); });
  }
  if (desc.data_type() == dnnl::memory::data_type::bf16) {
    const auto* values = static_cast<const uint16_t*>(memory);
    return std::any_of(values, values + bytes / 2, [](uint16_t v) { return (v & 0x7f80U) == 0x7f80U; });
  }
  return false;
}

}  // namespace

CpuExecutable::CpuExecutable(const Graph& graph, const CompileOptions& options)
    : graph_(graph), metrics_(options.metrics) {
  Lowering lowering(graph_, options);
  lowering.run();
  std::set<RegionId> kept;
  for (const auto& [name, value] : graph_.outputs()) {
    const RegionId region = lowering.output_region(value);
    kept.insert(region);
    outputs_.push_back({name, region, graph_.value(value).type});
  }
  layouts_ = lowering.parameter_layouts();
  delivered_layouts_ = lowering.delivered_layouts();
  prepared_bytes_ = lowering.prepared_bytes();
  regions_ = lowering.take_regions();
  steps_ = lowering.take_steps();
  activation_bytes_ = plan_memory(regions_, steps_, kept);
  const size_t backward = backward_begin(graph_);
  for (const Step& step : steps_) names_.push_back(name_of(step, backward));
}

OperationName CpuExecutable::name_of(const Step& step, size_t backward) const {
  const auto& nodes = graph_.nodes();
  if (step.node < 0 || step.node >= static_cast<int>(nodes.size())) return {"", "reorder", false};
  const Node& node = nodes[static_cast<size_t>(step.node)];
  return {node.scope, std::string(node.op->name()) + (step.reorders ? " (reorder)" : ""),
          static_cast<size_t>(step.node) >= backward};
}

/// Pointers for every region, and oneDNN memory objects for every argument. They are created once.
class CpuContext final : public Context {
 public:
  CpuContext(const CpuExecutable& executable, const ArenaLayout& arena, const Bindings& bindings)
      : executable_(executable), stream_(engine()) {
    pointers_.reserve(executable.regions_.size());
    for (const Region& region : executable.regions_) {
      std::byte* place = address(region, arena, bindings);
      pointers_.push_back(place == nullptr ? nullptr : place + region.shift);
    }
    bound_.resize(executable.steps_.size());
    for (size_t s = 0; s < executable.steps_.size(); ++s) bind_step(s);
  }

  void set_input(const std::string& name, const void* memory) override {
    for (size_t i = 0; i < executable_.regions_.size(); ++i) {
      const Region& region = executable_.regions_[i];
      if (region.place != Place::input || region.name != name) continue;
      // Inputs are read-only, but oneDNN and Pointers have one pointer type for everything.
      pointers_[i] = static_cast<std::byte*>(const_cast<void*>(memory)) + region.shift;
      for (const auto& [step, position] : input_uses_[static_cast<RegionId>(i)]) {
        if (executable_.steps_[step].primitive) {
          bound_[step].arguments.at(position).set_data_handle(pointers_[i]);
        } else {
          bound_[step].pointers[static_cast<size_t>(position)] = pointers_[i];
        }
      }
    }
  }

  void run(HostOperations& host, Phase phase) override {
    const OnTeam on_team;
    const bool notifies = host.listens();
    for (size_t s = 0; s < bound_.size(); ++s) {
      if (!runs_in(s, phase)) continue;
      run_step(s, host);
      if (notifies && !executable_.steps_[s].host) host.ran(executable_.names_[s]);
      host.poll();
    }
  }

  void prepare(Phase phase) override {
    const OnTeam on_team;
    for (size_t s = 0; s < bound_.size(); ++s) {
      const Step& step = executable_.steps_[s];
      if (step.prepares && in_part(step, phase)) compute(s);
    }
  }

  std::optional<std::string> find_non_finite(HostOperations& host, Phase phase) override {
    const OnTeam on_team;
    // The run continues to its end: other members wait for the values that it exchanges.
    std::optional<std::string> found;
    for (size_t s = 0; s < bound_.size(); ++s) {
      if (!runs_in(s, phase)) continue;
      run_step(s, host);
      if (found || !makes_non_finite(executable_.steps_[s])) continue;
      const Node& node = executable_.graph_.nodes()[static_cast<size_t>(executable_.steps_[s].node)];
      found = fmt::format("{} ({})", node.scope.empty() ? "the input" : "layer '" + node.scope + "'",
                          node.op->name());
    }
    return found;
  }

  std::vector<float> output(const std::string& name) override {
    const OnTeam on_team;
    for (const auto& output : executable_.outputs_) {
      if (output.name != name) continue;
      std::vector<float> values(static_cast<size_t>(output.type.shape.elements()));
      const Region& region = executable_.regions_[static_cast<size_t>(output.region)];
      dnnl::memory from(region.desc, engine(), pointers_[static_cast<size_t>(output.region)]);
      dnnl::memory to(plain(DType::f32, output.type.shape), engine(), values.data());
      dnnl::reorder(from, to).execute(stream_, from, to);
      return values;
    }
    throw run_error("the graph has no output '{}'", name);
  }

 private:
  struct Bound {
    std::unordered_map<int, dnnl::memory> arguments;
    std::vector<void*> pointers;
    const Node* node = nullptr;
    std::span<float> host_memory;
  };

  std::byte* address(const Region& region, const ArenaLayout& arena, const Bindings& bindings) const {
    switch (region.place) {
      case Place::activation: return bindings.activations.data() + region.offset;
      case Place::parameter: return bindings.parameters + arena.find(region.name).offset;
      case Place::gradient: return bindings.gradients + arena.find(region.name).offset;
      case Place::metric: {
        const auto& names = executable_.metrics_;
        const auto found = std::find(names.begin(), names.end(), region.name);
        if (found == names.end()) throw run_error("there is no memory for the metric '{}'", region.name);
        return reinterpret_cast<std::byte*>(bindings.metrics + (found - names.begin()));
      }
      case Place::prepared: return bindings.prepared + region.offset;
      case Place::delivered: {
        const auto found = bindings.delivered->find(region.name);
        if (found == bindings.delivered->end())
          throw run_error("there is no memory for the value '{}'", region.name);
        return found->second;
      }
      case Place::input: return nullptr;
    }
    return nullptr;
  }

  void bind_step(size_t s) {
    const Step& step = executable_.steps_[s];
    Bound& bound = bound_[s];
    for (const auto& [argument, region] : step.arguments) {
      const auto index = static_cast<size_t>(region);
      bound.arguments.emplace(argument,
                              dnnl::memory(executable_.regions_[index].desc, engine(), pointers_[index]));
      if (executable_.regions_[index].place == Place::input) input_uses_[region].emplace_back(s, argument);
    }
    for (size_t i = 0; i < step.regions.size(); ++i) {
      const auto index = static_cast<size_t>(step.regions[i]);
      bound.pointers.push_back(pointers_[index]);
      if (executable_.regions_[index].place == Place::input) {
        input_uses_[step.regions[i]].emplace_back(s, static_cast<int>(i));
      }
    }
    if (step.host) {
      bound.node = &executable_.graph_.nodes()[static_cast<size_t>(step.node)];
      if (!step.regions.empty()) {
        const Region& region = executable_.regions_[static_cast<size_t>(step.regions[0])];
        bound.host_memory = {static_cast<float*>(bound.pointers[0]), region.bytes / sizeof(float)};
      }
    }
  }

  static bool in_part(const Step& step, Phase phase) {
    return phase == Phase::whole || step.after_pause == (phase == Phase::after_pause);
  }
  bool runs_in(size_t s, Phase phase) const {
    const Step& step = executable_.steps_[s];
    return !step.prepares && in_part(step, phase);
  }

  void run_step(size_t s, HostOperations& host) {
    const Step& step = executable_.steps_[s];
    Bound& bound = bound_[s];
    if (step.host) {
      host.communicate(*bound.node, bound.host_memory);
    } else {
      compute(s);
    }
  }

  void compute(size_t s) {
    const Step& step = executable_.steps_[s];
    if (step.function) {
      step.function(Pointers(bound_[s].pointers));
    } else {
      step.primitive.execute(stream_, bound_[s].arguments);
    }
  }

  static std::vector<RegionId> results_of(const Step& step) {
    std::vector<RegionId> results;
    for (const auto& [argument, region] : step.arguments) {
      if (is_result(argument)) results.push_back(region);
    }
    for (size_t i = step.reads; i < step.regions.size(); ++i) results.push_back(step.regions[i]);
    return results;
  }

  bool makes_non_finite(const Step& step) const {
    const auto results = results_of(step);
    return std::any_of(results.begin(), results.end(), [&](RegionId region) {
      return has_non_finite(executable_.regions_[static_cast<size_t>(region)].desc,
                            pointers_[static_cast<size_t>(region)]);
    });
  }

  const CpuExecutable& executable_;
  dnnl::stream stream_;
  std::vector<void*> pointers_;
  std::vector<Bound> bound_;
  std::unordered_map<RegionId, std::vector<std::pair<size_t, int>>> input_uses_;
};

std::unique_ptr<Context> CpuExecutable::bind(const ArenaLayout& arena, const Bindings& bindings) const {
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
  return std::make_unique<CpuContext>(*this, arena, bindings);
}

}  // namespace telar::cpu
