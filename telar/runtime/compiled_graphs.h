#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "telar/device/device.h"
#include "telar/runtime/shared_state.h"

namespace telar {

/// The graphs of a replica, each compiled once for every batch size that it meets. One runs at a time, so they share the memory of their
/// activations, which grows with the largest.
class CompiledGraphs {
 public:
  enum class Purpose : uint8_t { gradient, evaluation, prediction };

  /// `home`: where the parameters lie that `bindings` names. `options`: but for the layouts of parameters, which are home's. The graphs and all
  /// references must outlive it.
  CompiledGraphs(const Device& device, const StateMemory& home, Bindings bindings, CompileOptions options,
                 std::map<Purpose, const Graph*> graphs);

  /// Throws Error (run) when the device has not enough memory, with the batch that would fit; smaller batches can still be asked for.
  Context& context(Purpose purpose, int64_t batch);
  size_t activation_bytes() const { return activations_ == nullptr ? 0 : activations_->size(); }

 private:
  struct Compiled {
    std::unique_ptr<Executable> executable;
    std::unique_ptr<Context> context;  ///< null until it is asked for in the memory that there is now
  };

  std::unique_ptr<Memory> allocate_activations(int64_t batch, size_t bytes) const;

  const Device& device_;
  const StateMemory& home_;
  Bindings bindings_;
  CompileOptions options_;
  std::map<Purpose, const Graph*> graphs_;
  std::unique_ptr<Memory> activations_;
  std::map<std::pair<Purpose, int64_t>, Compiled> compiled_;
};

}  // namespace telar
