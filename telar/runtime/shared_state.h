#pragma once

#include <map>
#include <string>
#include <vector>

#include "telar/core/buffer.h"
#include "telar/device/device.h"
#include "telar/device/layout.h"
#include "telar/graph/program.h"

namespace telar {

/// What all replicas of a process share: the state, and how it lies in memory.
struct SharedState {
  ArenaLayout arena;
  Buffer parameters;
  std::vector<std::string> slots;  ///< of optimizer state
  std::vector<Buffer> states;      ///< one arena for each slot
  Buffer gradients;                ///< of a pipeline: each stage fills its own part; replicas have their own
  /// Byte ranges of the program's buckets in the arenas; when it has none, one range of everything.
  std::vector<std::pair<size_t, size_t>> buckets;

  /// Where a state tensor lies.
  struct Place {
    const std::byte* memory;
    const ArenaLayout::Slot* slot;
  };

  /// Makes room for everything, with the parameters in these layouts.
  void allocate(const Program& program, const std::map<std::string, TensorLayout>& layouts);
  /// By a name as Session::state_names has them. Throws Error (run) for an unknown one.
  Place find(const std::string& name) const;
  /// How it lies in memory, in words: equal for processes whose sums fit together.
  std::string layout_text() const;
};

/// Names of a program's state: parameters ("conv1.weight"), then optimizer state ("momentum/conv1.weight").
std::vector<std::string> state_names(const Program& program);
/// The shape of a state tensor. Throws Error (run) for an unknown name.
Shape state_shape(const Program& program, const std::string& name);

}  // namespace telar
