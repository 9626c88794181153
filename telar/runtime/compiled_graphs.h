#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "telar/device/device.h"
#include "telar/runtime/session.h"
#include "telar/runtime/shared_state.h"

namespace telar {

/// A graph with fused operations, and the same without: a fused ReLU makes 0 of NaN on a CPU.
struct GraphForms {
  const Graph* fused = nullptr;
  const Graph* plain = nullptr;
  const Graph& of(const BatchView& batch) const { return batch.non_finite ? *plain : *fused; }
};

/// The graphs of a replica, each compiled once for every batch size. Only one runs at a time, so they share
/// memory for activations, sized for the largest.
class CompiledGraphs {
 public:
  enum class Purpose : uint8_t { gradient, evaluation, prediction };
  /// A graph: of gradients, there is one for each phase.
  struct Use {
    Purpose purpose;
    size_t phase = 0;

    Use(Purpose what, size_t in = 0)  // NOLINT(google-explicit-constructor): the first or only one
        : purpose(what), phase(in) {}
    bool operator<(const Use& other) const {
      return std::tie(purpose, phase) < std::tie(other.purpose, other.phase);
    }
  };

  /// `home`: the memory of the parameters named by `bindings`. `options`: the layouts of the parameters in it
  /// are replaced by home's. The graphs and all references must outlive this object.
  /// Each graph: for finite values, and for others (CompileOptions::non_finite).
  CompiledGraphs(const Device& device, const StateMemory& home, Bindings bindings, CompileOptions options,
                 std::map<Use, GraphForms> graphs);

  /// Whether a worker with these samples runs the graph. One without samples does if other members of a group
  /// need what it has: its features (`rows`, see BatchView) or its pieces of parameters.
  bool runs(Use use, const BatchView& batch) const;
  /// The graph for the samples of a batch. Throws Error (run) if the device has not enough memory; the
  /// message names the batch that would fit. Smaller batches can still be requested.
  Context& context(Use use, const BatchView& batch);
  size_t activation_bytes() const { return activations_ == nullptr ? 0 : activations_->size(); }

 private:
  struct Compiled {
    std::unique_ptr<Executable> executable;
    std::unique_ptr<Context> context;  ///< null until it is bound to the current activation memory
  };

  std::unique_ptr<Memory> allocate_activations(int64_t batch, size_t bytes) const;

  const Device& device_;
  const StateMemory& home_;
  Bindings bindings_;
  CompileOptions options_;
  std::map<Use, GraphForms> graphs_;
  std::unique_ptr<Memory> activations_;
  struct Key {
    Use use;
    int64_t batch;
    std::vector<int64_t> rows;
    bool non_finite;
    bool operator<(const Key& other) const {
      return std::tie(use, batch, rows, non_finite) <
             std::tie(other.use, other.batch, other.rows, other.non_finite);
    }
  };

  std::map<Key, Compiled> compiled_;
};

}  // namespace telar
