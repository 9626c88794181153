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

/// A piece of memory of a compiled graph: an index into Lowering::regions().
using RegionId = int;

/// Where a region's memory comes from when an executable is bound.
enum class Place : uint8_t { activation, parameter, gradient, metric, input, prepared, delivered };

struct Region {
  Desc desc;
  size_t bytes = 0;
  Place place = Place::activation;
  std::string name;   ///< of the parameter (also for its gradient), metric or input
  size_t offset = 0;  ///< activation: in the memory plan, filled by plan_memory; prepared: in that memory
  RegionId alias_of = -1;  ///< another description of that region's memory
  size_t shift = 0;        ///< bytes from the beginning of its memory: a part of what it is an alias of
};

/// The memory that a function step sees, in the order in which its regions were given.
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
using Arguments = std::vector<std::pair<int, RegionId>>;  ///< DNNL_ARG_… and its memory

/// One thing that a run does: a oneDNN primitive, a function of ours, or a call back to the host.
struct Step {
  int node = -1;  ///< of the graph, for names
  dnnl::primitive primitive;
  Arguments arguments;
  Function function;
  std::vector<RegionId> regions;  ///< of a function or a host call: reads first, then writes
  size_t reads = 0;               ///< how many of `regions` are reads; the rest are written
  bool host = false;
  bool reorders = false;     ///< brings a value into another layout
  bool prepares = false;     ///< belongs to Context::prepare
  bool after_pause = false;  ///< Phase::after_pause
};

/// Turns the nodes of a graph, one after the other, into steps. Kernels (kernels/*.cpp) are functions
/// `void lower_xxx(Lowering&, const Node&)` that ask for inputs in the layout they want, define their outputs
/// and add steps. A value keeps the layout in which it was made; a reorder is added, once, where a reader
/// wants another one.
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
  RegionId region(ValueId value);
  /// The value in the wanted layout. A parameter whose layout is open takes this one for good; otherwise a
  /// reorder (also between f32 and bf16, for a converted parameter) is added where needed.
  RegionId region(ValueId value, const Desc& wanted);
  /// The value in plain layout: what functions that index elements themselves ask for.
  RegionId plain_region(ValueId value) { return region(value, plain(type(value).dtype, shape(value))); }
  /// For a parameter whose layout is open: fixes it before a reader asks (bf16 weights are stored as the
  /// weight gradient comes).
  void propose_layout(ValueId parameter, const Desc& layout);
  /// A converted parameter stands for its f32 source until somebody reads it in a certain layout.
  std::optional<ValueId> converted_parameter(ValueId value) const;
  void define_converted_parameter(ValueId value, ValueId source);

  /// Memory for a result in this layout. When the result's one reader accumulates it into a gradient of the
  /// same layout, the memory is the gradient itself.
  RegionId define(ValueId result, const Desc& layout);
  RegionId define_plain(ValueId result) { return define(result, plain(type(result).dtype, shape(result))); }
  /// The result shares the memory of `source` (a reshape, or an operation in place).
  void define_alias(ValueId result, RegionId source, const Desc& layout);
  /// Memory for a result that an element-wise operation may write over `source`: the source's own when it
  /// lies as `layout` and is not read again, else new. Ask for the source's region before.
  void define_in_place(ValueId result, ValueId source, const Desc& layout);
  void define_in_place(ValueId result, ValueId source) { define_in_place(result, source, desc(source)); }
  /// Another description of the same memory, or of a part of it that begins after `shift` bytes.
  RegionId view(RegionId region, const Desc& desc, size_t shift = 0);
  /// True when nobody reads the value's memory after the node being lowered: it may be overwritten in place.
  bool dies_here(ValueId value) const;

  /// Memory for this node alone (scratchpads, intermediate results).
  RegionId temporary(const Desc& desc);
  /// Further memory that travels with an opaque value from the forward to the backward operation.
  void attach(ValueId value, std::vector<RegionId> regions) { attached_[value] = std::move(regions); }
  const std::vector<RegionId>& attached(ValueId value) const { return attached_.at(value); }

  /// Gradient memory of a parameter, when `buffer` is one; its layout is the parameter's.
  RegionId gradient_region(ValueId buffer);
  RegionId metric_region(ValueId buffer);
  bool written_directly(ValueId value) const { return direct_.contains(value); }
  Accumulation accumulation() const { return options_.accumulation; }

  /// Adds a primitive; a scratchpad is added from its description. Arguments whose region is < 0 are left
  /// out.
  template <typename PrimitiveDesc>
  void primitive(const PrimitiveDesc& pd, const dnnl::primitive& primitive, Arguments arguments) {
    const Desc scratchpad = pd.scratchpad_desc();
    add_primitive(primitive, std::move(arguments), scratchpad);
  }
  /// Adds a function that reads and writes the given memory; Pointers are in that order.
  void function(const std::vector<RegionId>& reads, const std::vector<RegionId>& writes, Function function);
  /// Adds a call of the host for this node, on `region` (or none: −1), in place.
  void host(RegionId region);
  void reorder(RegionId from, RegionId to);
  /// Leaves the value in the memory that goes by this name.
  void deliver(ValueId value, const std::string& name);
  void pause() { paused_ = true; }

  const std::vector<Region>& regions() const { return regions_; }
  const Desc& desc_of(RegionId region) const { return regions_[static_cast<size_t>(region)].desc; }

  /// Lowers every node; the result is then read from regions, steps and parameter_layouts.
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
  /// The layout in which a value goes from graph to graph: as agreed, or else `natural` where the batch is
  /// outermost in it.
  Desc delivery_desc(ValueId value, const std::string& name, const Desc& natural);
  /// Running statistics: the gradient graph leaves their sums but does not read them. They lie plain.
  void declare_unread_parameters();
  RegionId root_of(RegionId region) const;
  RegionId add_region(const Desc& desc, Place place, const std::string& name = {});
  void fix_layout(ValueId parameter, const Desc& layout);
  bool is_parameter(ValueId value) const { return graph_.value(value).kind == ValueKind::parameter; }
  /// The gradient buffer that alone reads `result`, when it can be written in place.
  std::optional<ValueId> direct_target(ValueId result) const;

  const Graph& graph_;
  CompileOptions options_;
  std::vector<std::vector<int>> uses_;
  int node_ = -1;
  std::vector<Region> regions_;
  std::vector<Step> steps_;
  std::map<ValueId, RegionId> lies_;                 // where each value lies
  std::map<ValueId, std::vector<RegionId>> copies_;  // the same value in other layouts
  std::map<RegionId, std::vector<ValueId>> holds_;   // values that share a region
  std::map<std::string, Parameter> parameters_;
  std::vector<std::string> parameter_order_;
  std::map<ValueId, ValueId> converted_;
  std::map<ValueId, std::vector<RegionId>> attached_;
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
