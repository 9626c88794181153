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

/// The memory of a value or temporary in a compiled graph: an index into Lowering::regions().
using RegionId = int;

/// Where the memory of a region comes from when an executable is bound.
enum class Place : uint8_t { activation, parameter, gradient, metric, input, prepared, delivered };

struct Region {
  Desc desc;
  size_t bytes = 0;
  Place place = Place::activation;
  std::string name;  ///< of the parameter (for its gradient, too), metric or input
  /// Activation: offset in the memory plan, set by plan_memory; prepared: in the prepared memory.
  size_t offset = 0;
  RegionId alias_of = -1;  ///< the region whose memory this one describes in another way
  size_t shift = 0;        ///< byte offset in the memory of alias_of
};

/// Pointers that a function step works on, in the order in which its regions were given.
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
using Arguments = std::vector<std::pair<int, RegionId>>;  ///< DNNL_ARG_… and its region

/// One step of a run: a oneDNN primitive, a function of ours, or a call to the host.
struct Step {
  int node = -1;  ///< node of the graph, for its name
  dnnl::primitive primitive;
  Arguments arguments;
  Function function;
  std::vector<RegionId> regions;  ///< of a function or a host call: reads first, then writes
  size_t reads = 0;               ///< number of regions that are read; the rest are written
  bool host = false;
  bool reorders = false;     ///< converts a value to another layout
  bool prepares = false;     ///< belongs to Context::prepare
  bool after_pause = false;  ///< Phase::after_pause
};

/// Turns the nodes of a graph into steps, one after the other. Kernels (kernels/*.cpp) are functions `void
/// lower_xxx(Lowering&, const Node&)`. They request inputs in the layout they need, define their outputs and
/// add steps. A value keeps the layout in which it was computed. The first reader that needs another layout
/// adds a reorder.
class Lowering {
 public:
  Lowering(const Graph& graph, const CompileOptions& options);

  const Graph& graph() const { return graph_; }
  const TensorType& type(ValueId value) const { return graph_.value(value).type; }
  const Shape& shape(ValueId value) const { return type(value).shape; }
  bool used(ValueId value) const { return !uses_[static_cast<size_t>(value)].empty(); }

  /// The layout of a value; plain for a parameter whose layout is still open.
  Desc desc(ValueId value) const;
  /// The value in its own layout.
  RegionId region(ValueId value);
  /// The value in the wanted layout. A parameter whose layout is open gets this one for good. Otherwise a
  /// reorder is added where needed, also between f32 and bf16 for a converted parameter.
  RegionId region(ValueId value, const Desc& wanted);
  /// The value in plain layout, for functions that index elements themselves.
  RegionId plain_region(ValueId value) { return region(value, plain(type(value).dtype, shape(value))); }
  /// Sets the layout of a parameter that is still open, before a reader requests one. (bf16 weights are
  /// stored in the layout of their gradient.)
  void propose_layout(ValueId parameter, const Desc& layout);
  /// A converted parameter stands for its f32 source until an operation reads it in a particular layout.
  std::optional<ValueId> converted_parameter(ValueId value) const;
  void define_converted_parameter(ValueId value, ValueId source);

  /// Memory for a result in this layout. If the only reader accumulates the result into a gradient of the
  /// same layout, this is the gradient's memory.
  RegionId define(ValueId result, const Desc& layout);
  RegionId define_plain(ValueId result) { return define(result, plain(type(result).dtype, shape(result))); }
  /// Defines the result in the memory of `source` (a reshape, or an operation in place).
  void define_alias(ValueId result, RegionId source, const Desc& layout);
  /// Memory for a result of an element-wise operation, which may overwrite `source`. It is the memory of
  /// `source` when that has this layout and is not read again, otherwise new. Request the region of `source`
  /// first.
  void define_in_place(ValueId result, ValueId source, const Desc& layout);
  void define_in_place(ValueId result, ValueId source) { define_in_place(result, source, desc(source)); }
  /// Describes the same memory in another way, or a part of it that begins after `shift` bytes.
  RegionId view(RegionId region, const Desc& desc, size_t shift = 0);
  /// Whether no later node reads the value's memory, so that it may be overwritten.
  bool dies_here(ValueId value) const;

  /// Memory for this node only (scratchpads, intermediate results).
  RegionId temporary(const Desc& desc);
  /// Attaches more memory to an opaque value, which the forward operation passes to the backward one.
  void attach(ValueId value, std::vector<RegionId> regions) { attached_[value] = std::move(regions); }
  const std::vector<RegionId>& attached(ValueId value) const { return attached_.at(value); }

  /// The memory of the parameter gradient that `buffer` refers to; it has the parameter's layout.
  RegionId gradient_region(ValueId buffer);
  RegionId metric_region(ValueId buffer);
  bool written_directly(ValueId value) const { return direct_.contains(value); }
  Accumulation accumulation() const { return options_.accumulation; }

  /// Adds a primitive and its scratchpad. Arguments with a negative region are omitted.
  template <typename PrimitiveDesc>
  void primitive(const PrimitiveDesc& pd, const dnnl::primitive& primitive, Arguments arguments) {
    const Desc scratchpad = pd.scratchpad_desc();
    add_primitive(primitive, std::move(arguments), scratchpad);
  }
  /// Adds a function that reads and writes the given memory. Its Pointers are in that order.
  void function(const std::vector<RegionId>& reads, const std::vector<RegionId>& writes, Function function);
  /// Adds a host call for this node, on `region` in place (−1: none).
  void host(RegionId region);
  void reorder(RegionId from, RegionId to);
  /// Writes the value to the memory with this name, for another graph.
  void deliver(ValueId value, const std::string& name);
  void pause() { paused_ = true; }

  const std::vector<Region>& regions() const { return regions_; }
  const Desc& desc_of(RegionId region) const { return regions_[static_cast<size_t>(region)].desc; }

  /// Lowers all nodes. The results are regions, steps and parameter_layouts.
  void run();
  std::vector<Region> take_regions() { return std::move(regions_); }
  std::vector<Step> take_steps() { return std::move(steps_); }
  std::vector<std::pair<std::string, TensorLayout>> parameter_layouts() const;
  const std::map<std::string, TensorLayout>& delivered_layouts() const { return delivered_layouts_; }
  size_t prepared_bytes() const { return prepared_bytes_; }
  RegionId output_region(ValueId value) { return region(value); }

 private:
  struct Parameter {
    bool open = true;
    RegionId region = -1;
    RegionId gradient = -1;
  };

  void add_primitive(const dnnl::primitive& primitive, Arguments arguments, const Desc& scratchpad);
  void prepare_with_last_step();
  /// The layout of a value passed between graphs: the agreed one, or else `natural` if the batch is outermost
  /// in it.
  Desc delivery_desc(ValueId value, const std::string& name, const Desc& natural);
  /// Declares running statistics, in plain layout: the gradient graph writes their sums but does not read
  /// them.
  void declare_unread_parameters();
  RegionId root_of(RegionId region) const;
  RegionId add_region(const Desc& desc, Place place, const std::string& name = {});
  void fix_layout(ValueId parameter, const Desc& layout);
  bool is_parameter(ValueId value) const { return graph_.value(value).kind == ValueKind::parameter; }
  /// The gradient buffer that is the only reader of `result`, if the result can be computed in place.
  std::optional<ValueId> direct_target(ValueId result) const;

  const Graph& graph_;
  CompileOptions options_;
  std::vector<std::vector<int>> uses_;
  int node_ = -1;
  std::vector<Region> regions_;
  std::vector<Step> steps_;
  std::map<ValueId, RegionId> lies_;                 // memory of each value in its own layout
  std::map<ValueId, std::vector<RegionId>> copies_;  // memory of each value in other layouts
  std::map<RegionId, std::vector<ValueId>> holds_;   // values that share a region
  std::map<std::string, Parameter> parameters_;
  std::vector<std::string> parameter_order_;
  std::map<ValueId, ValueId> converted_;
  std::map<ValueId, std::vector<RegionId>> attached_;
  std::map<ValueId, bool> direct_;
  std::map<ValueId, std::string> deliveries_;  // values that a `deliver` node reads, and their names
  std::map<std::string, TensorLayout> delivered_layouts_;
  size_t prepared_bytes_ = 0;
  bool paused_ = false;
};

/// Conversion between a TensorLayout of the CPU device and a oneDNN descriptor.
const Desc& native_desc(const TensorLayout& layout);
TensorLayout make_layout(const Desc& desc);

}  // namespace telar::cpu
