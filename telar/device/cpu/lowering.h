#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "telar/device/cpu/onednn.h"
#include "telar/device/device.h"
#include "telar/graph/graph.h"

namespace telar::cpu {

/// A piece of memory of a compiled graph: an index into Lowering::slots().
using SlotId = int;

/// Where a slot's memory comes from when an executable is bound.
enum class Place : uint8_t { activation, parameter, gradient, metric, input, prepared, delivered };

struct Slot {
  Desc desc;
  size_t bytes = 0;
  Place place = Place::activation;
  std::string name;      ///< of the parameter (also for its gradient), metric or input
  size_t offset = 0;     ///< activation: in the memory plan, filled by plan_memory; prepared: in that memory
  SlotId alias_of = -1;  ///< another description of that slot's memory
  size_t shift = 0;      ///< bytes from the beginning of its memory: a part of what it is an alias of
};

/// The memory that a function step sees, in the order in which its slots were given.
class Pointers {
 public:
  explicit Pointers(std::span<void* const> pointers) : pointers_(pointers) {}
  template <typename T>
  T* get(size_t i) const {
    return static_cast<T*>(pointers_[i]);
  }

 private:
  std::span<void* const> pointers_;
};

using Function = std::function<void(const Pointers&)>;
using Arguments = std::vector<std::pair<int, SlotId>>;  ///< DNNL_ARG_… and its memory

/// One thing that a run does: a oneDNN primitive, a function of ours, or a call back to the host.
struct Step {
  int node = -1;  ///< of the graph, for names
  dnnl::primitive primitive;
  Arguments arguments;
  Function function;
  std::vector<SlotId> slots;  ///< of a function or a host call: reads first, then writes
  size_t reads = 0;           ///< how many of `slots` are reads; the rest are written
  bool host = false;
  bool reorders = false;     ///< brings a value into another layout
  bool prepares = false;     ///< belongs to Context::prepare
  bool after_pause = false;  ///< Phase::after_pause
};

/// Turns the nodes of a graph, one after the other, into steps. Kernels (kernels/*.cpp) are functions
/// `void lower_xxx(Lowering&, const Node&)` that ask for inputs in the layout they want, define their outputs and add steps.
/// A value keeps the layout in which it was made; a reorder is added, once, where a reader wants another one.
class Lowering {
 public:
  Lowering(const Graph& graph, const CompileOptions& options);

  const Graph& graph() const { return graph_; }
  const TensorType& type(ValueId value) const { return graph_.value(value).type; }
  const Shape& shape(ValueId value) const { return type(value).shape; }
  bool used(ValueId value) const { return !uses_[static_cast<size_t>(value)].empty(); }

  /// The layout in which a value lies. For a parameter whose layout is still open: plain.
  Desc desc(ValueId value) const;
  /// The value as it lies.
  SlotId slot(ValueId value);
  /// The value in the wanted layout. A parameter whose layout is open takes this one for good; otherwise a
  /// reorder (also between f32 and bf16, for a converted parameter) is added where needed.
  SlotId slot(ValueId value, const Desc& wanted);
  /// The value in plain layout: what functions that index elements themselves ask for.
  SlotId plain_slot(ValueId value) { return slot(value, plain(type(value).dtype, shape(value))); }
  /// For a parameter whose layout is open: fixes it before a reader asks (bf16 weights are stored as the weight
  /// gradient comes).
  void propose_layout(ValueId parameter, const Desc& layout);
  /// A converted parameter stands for its f32 source until somebody reads it in a certain layout.
  std::optional<ValueId> converted_parameter(ValueId value) const;
  void define_converted_parameter(ValueId value, ValueId source);

  /// Memory for a result in this layout. When the result's one reader accumulates it into a gradient of the same
  /// layout, the memory is the gradient itself.
  SlotId define(ValueId result, const Desc& layout);
  SlotId define_plain(ValueId result) { return define(result, plain(type(result).dtype, shape(result))); }
  /// The result shares the memory of `source` (a reshape, or an operation in place).
  void define_alias(ValueId result, SlotId source, const Desc& layout);
  /// Memory for a result that an element-wise operation may write over `source`: the source's own when it lies as
  /// `layout` and is not read again, else new. Ask for the source's slot before.
  void define_in_place(ValueId result, ValueId source, const Desc& layout);
  void define_in_place(ValueId result, ValueId source) { define_in_place(result, source, desc(source)); }
  /// Another description of the same memory, or of a part of it that begins after `shift` bytes.
  SlotId view(SlotId slot, const Desc& desc, size_t shift = 0);
  /// True when nobody reads the value's memory after the node being lowered: it may be overwritten in place.
  bool dies_here(ValueId value) const;

  /// Memory for this node alone (scratchpads, intermediate results).
  SlotId temporary(const Desc& desc);
  /// Further memory that travels with an opaque value from the forward to the backward operation.
  void attach(ValueId value, std::vector<SlotId> slots) { attached_[value] = std::move(slots); }
  const std::vector<SlotId>& attached(ValueId value) const { return attached_.at(value); }

  /// Gradient memory of a parameter, when `buffer` is one; its layout is the parameter's.
  SlotId gradient_slot(ValueId buffer);
  SlotId metric_slot(ValueId buffer);
  bool written_directly(ValueId value) const { return direct_.contains(value); }
  Accumulation accumulation() const { return options_.accumulation; }

  /// Adds a primitive; a scratchpad is added from its description. Arguments whose slot is < 0 are left out.
  template <typename PrimitiveDesc>
  void primitive(const PrimitiveDesc& pd, const dnnl::primitive& primitive, Arguments arguments) {
    const Desc scratchpad = pd.scratchpad_desc();
    add_primitive(primitive, std::move(arguments), scratchpad);
  }
  /// Adds a function that reads and writes the given memory; Pointers are in that order.
  void function(const std::vector<SlotId>& reads, const std::vector<SlotId>& writes, Function function);
  /// Adds a call of the host for this node, on `slot` (or none: −1), in place.
  void host(SlotId slot);
  void reorder(SlotId from, SlotId to);
  /// Leaves the value in the memory that goes by this name.
  void deliver(ValueId value, const std::string& name);
  void pause() { paused_ = true; }

  const std::vector<Slot>& slots() const { return slots_; }
  const Desc& desc_of(SlotId slot) const { return slots_[static_cast<size_t>(slot)].desc; }

  /// Lowers every node; the result is then read from slots, steps and parameter_layouts.
  void run();
  std::vector<Slot> take_slots() { return std::move(slots_); }
  std::vector<Step> take_steps() { return std::move(steps_); }
  std::vector<std::pair<std::string, TensorLayout>> parameter_layouts() const;
  const std::map<std::string, TensorLayout>& delivered_layouts() const { return delivered_layouts_; }
  size_t prepared_bytes() const { return prepared_bytes_; }
  SlotId output_slot(ValueId value) { return slot(value); }

 private:
  struct Parameter {
    bool open = true;
    SlotId slot = -1;
    SlotId gradient = -1;
  };

  void add_primitive(const dnnl::primitive& primitive, Arguments arguments, const Desc& scratchpad);
  void prepare_with_last_step();
  /// The layout in which a value goes from graph to graph: as agreed, or else `natural` where the batch is outermost in it.
  Desc delivery_desc(ValueId value, const std::string& name, const Desc& natural);
  /// Running statistics: the gradient graph leaves their sums but does not read them. They lie plain.
  void declare_unread_parameters();
  SlotId root_of(SlotId slot) const;
  SlotId add_slot(const Desc& desc, Place place, const std::string& name = {});
  void fix_layout(ValueId parameter, const Desc& layout);
  bool is_parameter(ValueId value) const { return graph_.value(value).kind == ValueKind::parameter; }
  /// The gradient buffer that alone reads `result`, when it can be written in place.
  std::optional<ValueId> direct_target(ValueId result) const;

  const Graph& graph_;
  CompileOptions options_;
  std::vector<std::vector<int>> uses_;
  int node_ = -1;
  std::vector<Slot> slots_;
  std::vector<Step> steps_;
  std::map<ValueId, SlotId> lies_;                 // where each value lies
  std::map<ValueId, std::vector<SlotId>> copies_;  // the same value in other layouts
  std::map<SlotId, std::vector<ValueId>> holds_;   // values that share a slot
  std::map<std::string, Parameter> parameters_;
  std::vector<std::string> parameter_order_;
  std::map<ValueId, ValueId> converted_;
  std::map<ValueId, std::vector<SlotId>> attached_;
  std::map<ValueId, bool> direct_;
  std::map<ValueId, std::string> deliveries_;  // values that a `deliver` reads, and their names
  std::map<std::string, TensorLayout> delivered_layouts_;
  size_t prepared_bytes_ = 0;
  bool paused_ = false;
};

/// The description inside a TensorLayout of the CPU device, and a layout from a description.
const Desc& native_desc(const TensorLayout& layout);
TensorLayout make_layout(const Desc& desc);

}  // namespace telar::cpu
