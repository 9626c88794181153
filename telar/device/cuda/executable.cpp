#include "telar/device/cuda/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "telar/core/error.h"
#include "telar/device/cuda/check.h"

namespace telar::cuda {

namespace {

std::vector<std::byte*> pointers_of(const Step& step, const std::vector<std::byte*>& slots) {
  std::vector<std::byte*> pointers;
  for (const SlotId slot : step.slots) pointers.push_back(slots[static_cast<size_t>(slot)]);
  return pointers;
}

}  // namespace

CudaExecutable::CudaExecutable(const Graph& graph, std::shared_ptr<Gpu> gpu)
    : gpu_(std::move(gpu)), graph_(graph) {
  gpu_->use();
  Lowering lowering(graph_, *gpu_);
  lowering.run();
  std::vector<SlotId> kept;
  for (const auto& [name, value] : graph_.outputs()) {
    outputs_.push_back({name, lowering.slot(value)});
    kept.push_back(outputs_.back().slot);
  }
  slots_ = lowering.take_slots();
  steps_ = lowering.take_steps();
  plan_bytes_ = plan_memory(slots_, steps_, kept);
  // A graph without gradients has no backward part.
  for (const Step& step : steps_) {
    const Node& node = graph_.nodes()[static_cast<size_t>(step.node)];
    names_.push_back({node.scope, std::string(node.op->name()) + (step.reorders ? " (reorder)" : ""), false});
  }
}

void CudaExecutable::choose_algorithms(const std::vector<std::byte*>& pointers) const {
  std::call_once(chosen_, [&] {
    for (const Step& step : steps_)
      if (step.choose) step.choose(Pointers(pointers_of(step, pointers)));
  });
}

/// The graph's memory on the GPU: one block for what it computes, and one for each input.
class CudaContext final : public Context {
 public:
  explicit CudaContext(const CudaExecutable& executable)
      : executable_(executable), gpu_(*executable.gpu_), plan_(gpu_, executable.plan_bytes_) {
    for (const Slot& slot : executable_.slots_) {
      if (slot.place == Place::input) {
        inputs_.emplace_back(gpu_, slot.bytes);
        pointers_.push_back(inputs_.back().data());
      } else {
        pointers_.push_back(plan_.data() + slot.offset);
      }
    }
    executable_.choose_algorithms(pointers_);
    for (const Step& step : executable_.steps_) step_pointers_.push_back(pointers_of(step, pointers_));
  }

  void set_input(const std::string& name, const void* memory) override {
    gpu_.use();
    for (size_t i = 0; i < executable_.slots_.size(); ++i) {
      const Slot& slot = executable_.slots_[i];
      if (slot.place != Place::input || slot.name != name) continue;
      check(cudaMemcpyAsync(pointers_[i], memory, slot.bytes, cudaMemcpyHostToDevice, gpu_.stream()),
            "copying an input");
      gpu_.wait();  // the caller may change its memory from now on
    }
  }

  void run(HostOperations& host, Phase phase) override {
    // A graph with a `pause` is refused by the lowering: all of this one is before it.
    if (phase == Phase::after_pause) return;
    gpu_.use();
    const bool told = host.listens();
    for (size_t s = 0; s < executable_.steps_.size(); ++s) {
      executable_.steps_[s].enqueue(Pointers(step_pointers_[s]));
      if (told) {
        gpu_.wait();  // what is told of an operation is that it has run
        host.ran(executable_.names_[s]);
      }
      host.poll();
    }
  }

  void prepare(Phase /*phase*/) override {}  // there are no parameters

  std::optional<std::string> find_non_finite(HostOperations& host, Phase phase) override {
    std::optional<std::string> found;
    if (phase == Phase::after_pause) return found;
    gpu_.use();
    for (size_t s = 0; s < executable_.steps_.size(); ++s) {
      const Step& step = executable_.steps_[s];
      step.enqueue(Pointers(step_pointers_[s]));
      host.poll();
      if (found || !makes_non_finite(step)) continue;
      const Node& node = executable_.graph_.nodes()[static_cast<size_t>(step.node)];
      found = fmt::format("{} ({})", node.scope.empty() ? "the input" : "layer '" + node.scope + "'",
                          node.op->name());
    }
    return found;
  }

  std::vector<float> output(const std::string& name) override {
    gpu_.use();
    for (const auto& output : executable_.outputs_)
      if (output.name == name) return values(output.slot);
    throw run_error("the graph has no output '{}'", name);
  }

 private:
  std::vector<float> values(SlotId id) const {
    const Slot& slot = executable_.slots_[static_cast<size_t>(id)];
    std::vector<std::byte> bytes(slot.bytes);
    check(cudaMemcpyAsync(bytes.data(), pointers_[static_cast<size_t>(id)], bytes.size(),
                          cudaMemcpyDeviceToHost, gpu_.stream()),
          "copying a result");
    gpu_.wait();
    return canonical_values(bytes, slot.type, slot.layout);
  }

  bool makes_non_finite(const Step& step) const {
    for (size_t i = step.reads; i < step.slots.size(); ++i) {
      const DType dtype = executable_.slots_[static_cast<size_t>(step.slots[i])].type.dtype;
      if (dtype != DType::f32 && dtype != DType::bf16) continue;
      const std::vector<float> made = values(step.slots[i]);
      if (std::any_of(made.begin(), made.end(), [](float v) { return !std::isfinite(v); })) return true;
    }
    return false;
  }

  const CudaExecutable& executable_;
  const Gpu& gpu_;
  DeviceMemory plan_;
  std::vector<DeviceMemory> inputs_;
  std::vector<std::byte*> pointers_;                    // of each slot
  std::vector<std::vector<std::byte*>> step_pointers_;  // of each step, as it reads them
};

std::unique_ptr<Context> CudaExecutable::bind(const ArenaLayout& /*arena*/,
                                              const Bindings& /*bindings*/) const {
  gpu_->use();
  return std::make_unique<CudaContext>(*this);
}

}  // namespace telar::cuda
