#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "telar/core/buffer.h"
#include "telar/device/device.h"
#include "telar/device/layout.h"
#include "telar/graph/program.h"

namespace telar {

/// The state as it lies in one memory, the host's or a GPU's, for all replicas that compute there.
struct StateMemory {
  const Device* device = nullptr;  ///< one that computes in it
  ArenaLayout arena;               ///< offsets and sizes are the same in all memories
  std::unique_ptr<Memory> parameters;
  std::vector<std::unique_ptr<Memory>> states;  ///< one arena for each slot of optimizer state

  bool in_host_memory() const { return device->in_host_memory(); }
};

/// What all replicas of a process share. Each updates its shard of the state in its own memory. Where there are several memories,
/// parameters are the same in all of them after each step, and optimizer state is right where it is updated.
struct SharedState {
  std::vector<std::string> slots;  ///< of optimizer state
  std::vector<std::unique_ptr<StateMemory>> memories;
  Buffer gradients;  ///< of a pipeline: each stage fills its own part; replicas have their own
  /// Byte ranges of the program's buckets in the arenas; when it has none, one range of everything.
  std::vector<std::pair<size_t, size_t>> buckets;

  /// Makes room for everything, in the memory of each of these devices, with the parameters in these layouts; in several memories
  /// with all of them plain.
  void allocate(const Program& program, const std::vector<const Device*>& devices,
                const std::map<std::string, TensorLayout>& layouts);
  StateMemory& memory_of(const Device& device) const;
  /// Of every memory alike, but for what a device knows of its layouts.
  const ArenaLayout& arena() const { return memories.front()->arena; }
  /// The staging buffer, an arena in the host's memory through which parameters go from one memory to the others; null where there is
  /// one memory.
  std::byte* staging();
  /// How it lies in memory, in words: equal for processes whose sums fit together.
  std::string layout_text() const;

 private:
  Buffer staging_;  // where no processor computes
};

/// Where a tensor lies, by a name as Session::state_names has them: which arena it is of, and where in it.
struct StatePlace {
  std::optional<size_t> state;  ///< of optimizer state: which slot; none: the parameters
  std::string parameter;
};
/// Throws Error (run) for an unknown optimizer state.
StatePlace state_place(const SharedState& state, const std::string& name);

/// Names of a program's state: parameters ("conv1.weight"), then optimizer state ("momentum/conv1.weight").
std::vector<std::string> state_names(const Program& program);
/// The shape of a state tensor. Throws Error (run) for an unknown name.
Shape state_shape(const Program& program, const std::string& name);

}  // namespace telar
