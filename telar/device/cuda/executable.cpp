#include "telar/device/cuda/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "telar/core/error.h"
#include "telar/device/cuda/inputs.h"
#include "telar/device/cuda/kernels/common/batch_norm_plans.h"
#include "telar/device/cuda/recording.h"

namespace telar::cuda {

namespace {

std::vector<std::byte*> pointers_of(const Step& step, const std::vector<std::byte*>& regions) {
  std::vector<std::byte*> pointers;
  for (const RegionId region : step.regions) pointers.push_back(regions[static_cast<size_t>(region)]);
  return pointers;
}

/// Postpones the sums of gradients until the end of a run.
class SumsAtTheEnd final : public HostOperations {
 public:
  explicit SumsAtTheEnd(HostOperations& host) : host_(host) {}
  void communicate(const Node& node, std::span<float> memory) override {
    if (node.op->effect() == Effect::sums_gradients) {
      sums_.push_back(&node);
    } else {
      host_.communicate(node, memory);
    }
  }
  void poll() override { host_.poll(); }
  bool listens() const override { return host_.listens(); }
  void ran(const OperationName& operation) override { host_.ran(operation); }
  void warn(const std::string& text) override { host_.warn(text); }
  void make() {
    for (const Node* sum : sums_) host_.communicate(*sum, {});
  }

 private:
  HostOperations& host_;
  std::vector<const Node*> sums_;
};

}  // namespace

CudaExecutable::CudaExecutable(const Graph& graph, std::shared_ptr<Gpu> gpu, const CompileOptions& options)
    : LoweredExecutable(graph, options), gpu_(std::move(gpu)) {
  gpu_->use();
  plan_batch_norms(*gpu_, graph_);
  Lowering lowering(graph_, *gpu_, options);
  lower(lowering);
}

void CudaExecutable::choose_algorithms(const std::vector<std::byte*>& pointers) const {
  // Not std::call_once: the thread sanitizer does not understand how an exception leaves it.
  const std::lock_guard lock(choosing_);
  if (chosen_) return;
  for (const Step& step : steps_)
    if (step.work.choose) step.work.choose(Pointers(pointers_of(step, pointers)));
  chosen_ = true;
}

/// Pointers for every region of memory, and the inputs. The steps between two host calls are recorded when
/// they run for the second time, and replayed from then on.
class CudaContext final : public Context {
 public:
  CudaContext(const CudaExecutable& executable, const ArenaLayout& arena, const Bindings& bindings)
      : executable_(executable),
        gpu_(*executable.gpu_),
        arena_(arena),
        bindings_(bindings),
        inputs_(*executable.gpu_, input_bytes(executable)) {
    executable_.choose_algorithms(pointers_in(0));
  }
  ~CudaContext() override { gpu_.wait_at_last(); }

  void set_input(const std::string& name, const void* memory) override {
    gpu_.use();
    size_t input = 0;
    for (const Region& region : executable_.regions_) {
      if (region.place != Place::input || region.alias_of >= 0) continue;
      if (region.name == name) return inputs_.set(input, memory);
      ++input;
    }
  }

  void run(HostOperations& host, Phase phase) override {
    // The lowering refuses graphs with a `pause`, so the whole graph is before the pause.
    if (phase == Phase::after_pause) return;
    Bound& bound = bound_inputs();
    const bool plays = warm_ && recordable_ && !host.listens();
    if (host.sums_on_device() && (!warm_ || (plays && !bound.recorded))) {
      // CUDA loads kernels when they run for the first time, and prepares recordings. It may then wait for
      // the whole GPU and block the threads of other members. Those would never join a sum that this GPU
      // waits for. So no sums run during this time.
      gpu_.wait();
      SumsAtTheEnd sums(host);
      run(bound, sums, plays);
      gpu_.wait();
      sums.make();
    } else {
      run(bound, host, plays);
    }
    warm_ = true;
    inputs_.read(input_buffer_);
  }

  void prepare(Phase /*phase*/) override {}  // a GPU is not a pipeline stage

  std::optional<std::string> find_non_finite(HostOperations& host, Phase phase) override {
    // The run continues to its end: other members wait for the values that it exchanges.
    std::optional<std::string> found;
    if (phase == Phase::after_pause) return found;
    Bound& bound = bound_inputs();
    for (size_t s = 0; s < executable_.steps_.size(); ++s) {
      const Step& step = executable_.steps_[s];
      run_step(bound, s, host);
      host.poll();
      if (found || step.host || !makes_non_finite(bound, s)) continue;
      found = executable_.describe(step);
    }
    inputs_.read(input_buffer_);
    return found;
  }

  std::vector<float> output(const std::string& name) override {
    Bound& bound = bound_inputs();
    const auto region = static_cast<size_t>(executable_.output(name));
    return values(executable_.regions_[region], bound.pointers[region]);
  }

 private:
  /// The steps with the inputs in one of the two batch buffers.
  struct Bound {
    std::vector<std::byte*> pointers;            // of each region
    std::vector<std::vector<std::byte*>> steps;  // of each step, in the order in which it reads them
    std::vector<Recording> recordings;           // of the steps between two host calls, in order
    bool recorded = false;                       // all steps are recorded
  };

  void run(Bound& bound, HostOperations& host, bool plays) {
    if (plays) {
      play(bound, host);
    } else {
      run_step_by_step(bound, host);
    }
  }

  static std::vector<size_t> input_bytes(const CudaExecutable& executable) {
    std::vector<size_t> bytes;
    for (const Region& region : executable.regions_)
      if (region.place == Place::input && region.alias_of < 0) bytes.push_back(region.bytes);
    return bytes;
  }

  /// Sends the inputs and returns the steps that use the buffer in which they arrive.
  Bound& bound_inputs() {
    gpu_.use();
    input_buffer_ = inputs_.send();
    Bound& bound = bound_[input_buffer_];
    if (!bound.pointers.empty() || executable_.regions_.empty()) return bound;
    bound.pointers = pointers_in(input_buffer_);
    for (const Step& step : executable_.steps_) bound.steps.push_back(pointers_of(step, bound.pointers));
    return bound;
  }

  std::vector<std::byte*> pointers_in(size_t inputs) const {
    std::vector<std::byte*> pointers;
    size_t input = 0;
    for (const Region& region : executable_.regions_) {
      if (region.place != Place::input) {
        pointers.push_back(executable_.memory_of(region, arena_, bindings_));
      } else if (region.alias_of >= 0) {
        pointers.push_back(pointers[static_cast<size_t>(region.alias_of)]);
      } else {
        pointers.push_back(inputs_.memory(inputs, input++));
      }
    }
    return pointers;
  }

  void run_step_by_step(Bound& bound, HostOperations& host) {
    const bool notifies = host.listens();
    for (size_t s = 0; s < executable_.steps_.size(); ++s) {
      run_step(bound, s, host);
      if (notifies && !executable_.steps_[s].host) {
        gpu_.wait();  // the host is notified of an operation when it has run
        host.ran(executable_.names_[s]);
      }
      host.poll();
    }
  }

  void play(Bound& bound, HostOperations& host) {
    const auto& steps = executable_.steps_;
    size_t recording = 0;
    for (size_t s = 0; s < steps.size();) {
      if (steps[s].host) {
        call_host(bound, s++, host);
      } else {
        size_t end = s;
        while (end < steps.size() && !steps[end].host) ++end;
        const auto enqueue = [&] {
          for (size_t i = s; i < end; ++i) steps[i].work.enqueue(Pointers(bound.steps[i]));
        };
        if (recording == bound.recordings.size() && recordable_) record(bound, enqueue, host);
        if (recording < bound.recordings.size()) {
          bound.recordings[recording++].play(gpu_);
        } else {
          enqueue();
        }
        s = end;
      }
      host.poll();
    }
    bound.recorded = recordable_;
  }

  /// If something cannot be recorded, the steps are enqueued one by one from then on.
  void record(Bound& bound, const std::function<void()>& enqueue, HostOperations& host) {
    try {
      bound.recordings.emplace_back(gpu_, enqueue);
    } catch (const Error& error) {
      recordable_ = false;
      host.warn(fmt::format(
          "{} enqueues the operations of a step one by one, which takes longer than replaying a recording: {}",
          gpu_.name(), error.what()));
    }
  }

  void run_step(Bound& bound, size_t s, HostOperations& host) {
    if (executable_.steps_[s].host) {
      call_host(bound, s, host);
    } else {
      executable_.steps_[s].work.enqueue(Pointers(bound.steps[s]));
    }
  }

  void call_host(Bound& bound, size_t s, HostOperations& host) {
    const Step& step = executable_.steps_[s];
    const Node& node = executable_.graph_.nodes()[static_cast<size_t>(step.node)];
    std::vector<float> memory;
    if (!step.regions.empty())
      memory = values(executable_.regions_[static_cast<size_t>(step.regions[0])], bound.steps[s][0]);
    host.communicate(node, memory);
    if (memory.empty()) return;
    gpu_.use();
    gpu_.copy_in(std::as_bytes(std::span(memory)), bound.steps[s][0]);
  }

  std::vector<float> values(const Region& region, const std::byte* memory) const {
    std::vector<std::byte> bytes(region.bytes);
    gpu_.copy_out(memory, bytes);
    return canonical_values(bytes, region.layout.type, region.layout.layout);
  }

  bool makes_non_finite(const Bound& bound, size_t s) const {
    const Step& step = executable_.steps_[s];
    for (size_t i = step.reads; i < step.regions.size(); ++i) {
      const Region& region = executable_.regions_[static_cast<size_t>(step.regions[i])];
      const DType dtype = region.layout.type.dtype;
      if (dtype != DType::f32 && dtype != DType::bf16) continue;
      const std::vector<float> made = values(region, bound.steps[s][i]);
      if (std::any_of(made.begin(), made.end(), [](float v) { return !std::isfinite(v); })) return true;
    }
    return false;
  }

  const CudaExecutable& executable_;
  const Gpu& gpu_;
  ArenaLayout arena_;
  Bindings bindings_;
  Inputs inputs_;
  std::array<Bound, Inputs::kBuffers> bound_;
  size_t input_buffer_ = 0;  // of the inputs
  bool warm_ = false;        // libraries have loaded their kernels
  bool recordable_ = true;
};

std::unique_ptr<Context> CudaExecutable::bind(const ArenaLayout& arena, const Bindings& bindings) const {
  check(arena, bindings);
  gpu_->use();
  return std::make_unique<CudaContext>(*this, arena, bindings);
}

}  // namespace telar::cuda
