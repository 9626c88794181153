#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "telar/device/cuda/gpu.h"
#include "telar/device/cuda/layouts.h"
#include "telar/graph/graph.h"

namespace telar::cuda {

/// A piece of memory of a compiled graph: an index into Lowering::slots().
using SlotId = int;

/// Where a slot's memory comes from when an executable is bound.
enum class Place : uint8_t { activation, input };

struct Slot {
  TensorType type;  ///< of a temporary: opaque
  Layout layout = Layout::plain;
  size_t bytes = 0;
  Place place = Place::activation;
  std::string name;   ///< of the input
  size_t offset = 0;  ///< activation: in the memory plan
};

/// The memory of the GPU that a step works on, in the order in which its slots were given.
class Pointers {
 public:
  explicit Pointers(std::span<std::byte* const> pointers) : pointers_(pointers) {}
  std::byte* operator[](size_t i) const { return pointers_[i]; }

 private:
  std::span<std::byte* const> pointers_;
};

/// Tells the stream to do something with this memory.
using Enqueue = std::function<void(const Pointers&)>;

/// One thing that a run does.
struct Step {
  int node = -1;  ///< of the graph, for names
  Enqueue enqueue;
  Enqueue choose;             ///< tries algorithms on this memory, once, before the first run; may be empty
  std::vector<SlotId> slots;  ///< reads first, then writes
  size_t reads = 0;           ///< how many of `slots` are reads; the rest are written
  bool reorders = false;      ///< brings a value into another layout
};

/// Turns the nodes of a graph, one after the other, into steps. Kernels (kernels/*.cpp) are functions
/// `void lower_xxx(Lowering&, const Node&)` that ask for inputs in the layout they want, define their outputs and add steps.
/// A value keeps the layout in which it was made; a step is added, once, where a reader wants the other one.
class Lowering {
 public:
  /// Throws Error (run) for a graph that cannot be lowered yet: one with parameters or buffers.
  Lowering(const Graph& graph, Gpu& gpu);

  Gpu& gpu() const { return gpu_; }
  const TensorType& type(ValueId value) const { return graph_.value(value).type; }
  const Shape& shape(ValueId value) const { return type(value).shape; }

  /// The layout in which a value lies, and its memory as it lies.
  Layout layout(ValueId value) const;
  SlotId slot(ValueId value) const { return lies_.at(value); }
  /// The value's memory in the wanted layout.
  SlotId slot(ValueId value, Layout wanted);

  /// Memory for a result in this layout.
  SlotId define(ValueId result, Layout layout);
  /// Memory for this node alone.
  SlotId temporary(size_t bytes);
  /// Adds a step; Pointers are those of `reads`, then of `writes`.
  void add(const std::vector<SlotId>& reads, const std::vector<SlotId>& writes, Enqueue enqueue,
           Enqueue choose = {});

  /// Lowers every node. Throws Error (run) naming an operation that GPUs cannot compute yet.
  void run();
  std::vector<Slot> take_slots() { return std::move(slots_); }
  std::vector<Step> take_steps() { return std::move(steps_); }

 private:
  SlotId add_slot(Slot slot);

  const Graph& graph_;
  Gpu& gpu_;
  int node_ = -1;
  std::vector<Slot> slots_;
  std::vector<Step> steps_;
  std::map<ValueId, SlotId> lies_;    // where each value lies
  std::map<ValueId, SlotId> copies_;  // the same value in the other layout
};

/// Gives every activation slot an offset in one block of memory; those in `kept` live to the end. Returns the bytes of the block.
size_t plan_memory(std::vector<Slot>& slots, const std::vector<Step>& steps, const std::vector<SlotId>& kept);

}  // namespace telar::cuda
