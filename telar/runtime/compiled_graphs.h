#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "telar/device/device.h"
#include "telar/runtime/shared_state.h"

namespace telar {

/// The graphs of a replica, each compiled once for every batch size. Only one runs at a time, so they share
/// memory for activations, sized for the largest.
class CompiledGraphs {
 public:
  enum class Purpose : uint8_t { gradient, evaluation, prediction };

  /// `home`: the memory of the parameters named by `bindings`. `options`: the layouts of the parameters in it
  /// are replaced by home's. The graphs and all references must outlive this object.
  CompiledGraphs(const Device& device, const StateMemory& home, Bindings bindings, CompileOptions options,
                 std::map<Purpose, const Graph*> graphs);

  /// Whether a worker with these samples runs the graph. One without samples does if other members of a group
  /// need what it has: its features (`rows`, see BatchView) or its pieces of parameters.
  bool runs(Purpose purpose, int64_t batch, std::span<const int64_t> rows) const;
  /// `rows`: see BatchView. Throws Error (run) if the device has not enough memory; the message names the
  /// batch that would fit. Smaller batches can still be requested.
  Context& context(Purpose purpose, int64_t batch, std::span<const int64_t> rows = {});
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
  std::map<Purpose, const Graph*> graphs_;
  std::unique_ptr<Memory> activations_;
  struct Key {
    Purpose purpose;
    int64_t batch;
    std::vector<int64_t> rows;
    bool operator<(const Key& other) const {
      return std::tie(purpose, batch, rows) < std::tie(other.purpose, other.batch, other.rows);
    }
  };

  std::map<Key, Compiled> compiled_;
};

}  // namespace telar
