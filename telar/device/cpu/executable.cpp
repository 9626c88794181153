#include "telar/device/cpu/executable.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "telar/core/error.h"
#include "telar/device/cpu/team.h"

namespace telar::cpu {

namespace {

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
    : LoweredExecutable(graph, options), hides_non_finite_(!options.non_finite) {
  Lowering lowering(graph_, options);
  lower(lowering);
}

/// Pointers for every region, and oneDNN memory objects for every argument. They are created once.
class CpuContext final : public Context {
 public:
  CpuContext(const CpuExecutable& executable, const ArenaLayout& arena, const Bindings& bindings)
      : executable_(executable),
        stream_(engine()),
        suspicious_(executable.hides_non_finite_ ? bindings.metrics : nullptr) {
    pointers_.reserve(executable.regions_.size());
    for (const Region& region : executable.regions_)
      pointers_.push_back(executable.memory_of(region, arena, bindings));
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
        bound_[step].pointers[position] = pointers_[i];
        const Target::Work& work = executable_.steps_[step].work;
        if (!work.arguments.empty())
          bound_[step].arguments.at(work.arguments[position]).set_data_handle(pointers_[i]);
        for (size_t part = 0; part < work.parts.size(); ++part)
          for (const auto& [argument, place] : work.parts[part].arguments)
            if (place == position) bound_[step].parts[part].at(argument).set_data_handle(pointers_[i]);
      }
    }
  }

  void run(HostOperations& host, Phase phase) override {
    const OnTeam on_team;
    Team::of_this_thread().take_exceptions();
    const bool notifies = host.listens();
    for (size_t s = 0; s < bound_.size(); ++s) {
      if (!runs_in(s, phase)) continue;
      run_step(s, host);
      if (notifies && !executable_.steps_[s].host) host.ran(executable_.names_[s]);
      host.poll();
    }
    if (suspicious_ != nullptr && Team::of_this_thread().take_exceptions())
      *suspicious_ = std::numeric_limits<float>::quiet_NaN();
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
      found = executable_.describe(executable_.steps_[s]);
    }
    return found;
  }

  std::vector<float> output(const std::string& name) override {
    const OnTeam on_team;
    const auto index = static_cast<size_t>(executable_.output(name));
    const Region& region = executable_.regions_[index];
    const TensorType& type = executable_.graph_.value(executable_.graph_.output(name)).type;
    std::vector<float> values(static_cast<size_t>(type.shape.elements()));
    dnnl::memory from(region.layout, engine(), pointers_[index]);
    dnnl::memory to(plain(DType::f32, type.shape), engine(), values.data());
    dnnl::reorder(from, to).execute(stream_, from, to);
    return values;
  }

 private:
  using Memory = std::unordered_map<int, dnnl::memory>;
  struct Bound {
    Memory arguments;
    std::vector<Memory> parts;
    std::vector<void*> pointers;
    const Node* node = nullptr;
    std::span<float> host_memory;
  };

  void bind_step(size_t s) {
    const Step& step = executable_.steps_[s];
    Bound& bound = bound_[s];
    for (size_t i = 0; i < step.regions.size(); ++i) {
      const auto index = static_cast<size_t>(step.regions[i]);
      const Region& region = executable_.regions_[index];
      bound.pointers.push_back(pointers_[index]);
      if (step.work.primitive)
        bound.arguments.emplace(step.work.arguments[i],
                                dnnl::memory(region.layout, engine(), pointers_[index]));
      if (region.place == Place::input) input_uses_[step.regions[i]].emplace_back(s, i);
    }
    for (const Target::PartOfWork& part : step.work.parts) {
      Memory& memory = bound.parts.emplace_back();
      for (const auto& [argument, place] : part.arguments) {
        const Region& region = executable_.regions_[static_cast<size_t>(step.regions[place])];
        memory.emplace(argument, dnnl::memory(region.layout, engine(), bound.pointers[place]));
      }
    }
    if (step.host) {
      bound.node = &executable_.graph_.nodes()[static_cast<size_t>(step.node)];
      if (step.reads == 0 && !step.regions.empty()) {
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
    if (step.host && step.reads > 0) {
      exchange(s, host);
    } else if (step.host) {
      host.communicate(*bound.node, bound.host_memory);
    } else {
      compute(s);
    }
  }

  void exchange(size_t s, HostOperations& host) {
    const Step& step = executable_.steps_[s];
    std::vector<std::span<const std::byte>> inputs;
    std::vector<std::span<std::byte>> outputs;
    for (size_t i = 0; i < step.regions.size(); ++i) {
      if (i < step.reads) {
        inputs.emplace_back(memory(s, i));
      } else {
        outputs.push_back(memory(s, i));
      }
    }
    host.exchange(*bound_[s].node, inputs, outputs);
  }

  /// Of a region of a step. (Inputs are set after binding.)
  std::span<std::byte> memory(size_t s, size_t i) const {
    const Region& region = executable_.regions_[static_cast<size_t>(executable_.steps_[s].regions[i])];
    return {static_cast<std::byte*>(bound_[s].pointers[i]), region.bytes};
  }

  void compute(size_t s) {
    const Step& step = executable_.steps_[s];
    if (!step.work.parts.empty()) {
      compute_parts(step.work, bound_[s]);
    } else if (step.work.function) {
      step.work.function(Pointers(bound_[s].pointers));
    } else {
      step.work.primitive.execute(stream_, bound_[s].arguments);
    }
  }

  void compute_parts(const Target::Work& work, const Bound& bound) {
    const Pointers pointers(bound.pointers);
    Team& team = Team::of_this_thread();
    const size_t count = work.parts.size();
    team.run(std::min(static_cast<int>(count), team.size()), [&](int member, int members) {
      for (auto part = static_cast<size_t>(member); part < count; part += static_cast<size_t>(members)) {
        if (work.before) work.before(pointers, part);
        work.parts[part].primitive.execute(stream_, bound.parts[part]);
      }
    });
    if (work.function) work.function(pointers);
  }

  bool makes_non_finite(const Step& step) const {
    const auto results = std::span(step.regions).subspan(step.reads);
    return std::any_of(results.begin(), results.end(), [&](RegionId region) {
      return has_non_finite(executable_.regions_[static_cast<size_t>(region)].layout,
                            pointers_[static_cast<size_t>(region)]);
    });
  }

  const CpuExecutable& executable_;
  dnnl::stream stream_;
  /// The first metric, which becomes NaN if the run may have hidden a NaN or an infinity, of finite inputs,
  /// too; null if the kernels hide none (CompileOptions::non_finite).
  float* suspicious_;
  std::vector<void*> pointers_;
  std::vector<Bound> bound_;
  std::unordered_map<RegionId, std::vector<std::pair<size_t, size_t>>> input_uses_;  // step and position
};

std::unique_ptr<Context> CpuExecutable::bind(const ArenaLayout& arena, const Bindings& bindings) const {
  check(arena, bindings);
  return std::make_unique<CpuContext>(*this, arena, bindings);
}

}  // namespace telar::cpu
