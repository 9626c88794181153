#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telar/device/device.h"
#include "telar/graph/graph.h"

namespace telar {

/// The memory of a value or temporary in a compiled graph: an index into the regions of its lowering.
using RegionId = int;

/// Where the memory of a region comes from when an executable is bound.
enum class Place : uint8_t { activation, parameter, gradient, metric, input, prepared, delivered };

template <typename Layout>
struct Region {
  Layout layout;
  size_t bytes = 0;
  Place place = Place::activation;
  std::string name;  ///< of the parameter (for its gradient, too), metric, input or delivered value
  /// Activation: offset in the memory plan, set by plan_memory; prepared: in the prepared memory.
  size_t offset = 0;
  RegionId alias_of = -1;  ///< the region whose memory this one describes in another way
  size_t shift = 0;        ///< byte offset in the memory of alias_of
};

/// One step of a run: work of the device, or a call to the host.
template <typename Work>
struct Step {
  int node = -1;                  ///< node of the graph, for its name
  Work work;                      ///< empty for a host call
  std::vector<RegionId> regions;  ///< reads first, then writes
  size_t reads = 0;               ///< number of regions that are read; the rest are written
  bool host = false;
  bool reorders = false;     ///< converts a value to another layout
  bool prepares = false;     ///< belongs to Context::prepare
  bool after_pause = false;  ///< Phase::after_pause
};

/// Turns the nodes of a graph into steps, one after the other, for every device. A device's kernels
/// (kernels/*.cpp) are functions `void lower_xxx(Lowering&, const Node&)`. They request inputs in the layout
/// they need, define their outputs and add steps. A value keeps the layout in which it was computed. The
/// first reader that needs another layout adds a reorder.
///
/// `Target` is what the device adds:
///   Layout: how it stores a tensor of one type; a value with ==
///   Work: what a step does
///   plain(TensorType): the layout that users see, row-major without padding
///   bytes_of(Layout): the size with padding
///   with_type(Layout, DType): the same order of elements of another type
///   may_replace(Layout old, Layout made): whether an operation that reads and writes element by element in
///     these layouts may write its result over its input
///   batch_is_outermost(Layout), for_batch(Layout, int64_t batch): whether consecutive samples are
///     contiguous, and the same layout for another extent of axis 0
///   exported(Layout), imported(TensorLayout, TensorType): conversion from and to a TensorLayout
template <typename Target>
class GraphLowering {
 public:
  using Layout = typename Target::Layout;
  using Work = typename Target::Work;

  GraphLowering(const Graph& graph, const CompileOptions& options);
  virtual ~GraphLowering() = default;
  GraphLowering(const GraphLowering&) = delete;
  GraphLowering& operator=(const GraphLowering&) = delete;

  const Graph& graph() const { return graph_; }
  const TensorType& type(ValueId value) const { return graph_.value(value).type; }
  const Shape& shape(ValueId value) const { return type(value).shape; }
  DType dtype(ValueId value) const { return type(value).dtype; }
  bool used(ValueId value) const { return !uses_[static_cast<size_t>(value)].empty(); }

  /// The layout of a value; plain for a parameter whose layout is still open.
  Layout layout(ValueId value) const;
  const Layout& layout_of(RegionId region) const { return regions_[static_cast<size_t>(region)].layout; }
  /// The value in its own layout.
  RegionId region(ValueId value) { return region(value, layout(value)); }
  /// The value in the wanted layout. A parameter whose layout is open gets this one for good. Otherwise a
  /// reorder is added where needed.
  RegionId region(ValueId value, const Layout& wanted);
  /// The value in plain layout, for functions that index elements themselves.
  RegionId plain_region(ValueId value) { return region(value, Target::plain(type(value))); }
  /// Sets the layout of a parameter that is still open, before a reader requests one. (bf16 weights are
  /// stored in the layout of their gradient.)
  void propose_layout(ValueId parameter, const Layout& layout) {
    if (is_open(parameter)) fix_layout(parameter, layout);
  }
  /// Defines a value as a parameter in another type. It stands for its f32 source until an operation reads it
  /// in a particular layout.
  void define_converted_parameter(ValueId value, ValueId parameter) { converted_[value] = parameter; }
  /// The source of a converted parameter, for readers that convert while they read.
  std::optional<ValueId> converted_parameter(ValueId value) const;

  /// Memory for a result in this layout. If the only reader accumulates the result into a gradient of the
  /// same layout, this is the gradient's memory.
  RegionId define(ValueId result, const Layout& layout);
  RegionId define_plain(ValueId result) { return define(result, Target::plain(type(result))); }
  /// Defines the result in the memory of `source` (a reshape, or an operation in place).
  RegionId define_alias(ValueId result, RegionId source, const Layout& layout);
  /// Memory for a result of an element-wise operation, which may overwrite `source`. It is the memory of
  /// `source` when its layout allows that and it is not read again, otherwise new. Request the region of
  /// `source` first.
  RegionId define_in_place(ValueId result, ValueId source, const Layout& layout);
  /// Describes the same memory in another way, or a part of it that begins after `shift` bytes.
  RegionId view(RegionId region, const Layout& layout, size_t shift = 0);

  /// Memory for this node only (scratchpads, intermediate results) or, when attached to a value, until that
  /// value's last reader.
  RegionId temporary(const Layout& layout) { return add_region(layout, Place::activation); }
  /// Attaches more memory to an opaque value, which the forward operation passes to the backward one (−1:
  /// none). Until then, no operation in place overwrites it, even if the region is also that of a value.
  void attach(ValueId value, std::vector<RegionId> regions) {
    for (const RegionId region : regions)
      if (region >= 0) holds_[root_of(region)].push_back(value);
    attached_[value] = std::move(regions);
  }
  const std::vector<RegionId>& attached(ValueId value) const { return attached_.at(value); }

  bool is_metric(ValueId buffer) const;
  /// The memory of the metric, or of the parameter gradient, that `buffer` refers to. A gradient
  /// has the layout of its parameter.
  RegionId metric_region(ValueId buffer);
  RegionId gradient_region(ValueId buffer);
  /// Whether the value was computed in the gradient, or added to the metric, into which it is accumulated.
  bool written_directly(ValueId value) const { return direct_.contains(value); }
  Accumulation accumulation() const { return options_.accumulation; }
  bool non_finite() const { return options_.non_finite; }

  /// Adds a call of HostOperations::communicate for this node, on `region` in place (−1: none).
  void host(RegionId region);
  /// Adds a call of HostOperations::exchange for this node.
  void host(const std::vector<RegionId>& from, const std::vector<RegionId>& to);
  /// Writes the value to the memory with this name, for another graph.
  void deliver(ValueId value, const std::string& name);
  void pause() { paused_ = true; }
  /// Adds a step that copies a tensor from one layout to another, and converts between f32 and bf16.
  virtual void reorder(RegionId from, RegionId to) = 0;

  /// Lowers all nodes. The results are regions, steps and layouts.
  void run();
  std::vector<Region<Layout>> take_regions() { return std::move(regions_); }
  std::vector<Step<Work>> take_steps() { return std::move(steps_); }
  std::vector<std::pair<std::string, TensorLayout>> parameter_layouts() const;
  const std::map<std::string, TensorLayout>& delivered_layouts() const { return delivered_layouts_; }
  size_t prepared_bytes() const { return prepared_bytes_; }

 protected:
  /// Calls the kernel of a node. Throws Error (run) naming an operation that the device cannot compute.
  virtual void lower(const Node& node) = 0;
  /// May give memory, with set_region, to a value that the device computes only when an operation reads it.
  virtual void compute_late(ValueId /*value*/, const Layout& /*wanted*/) {}

  const CompileOptions& options() const { return options_; }
  bool has_region(ValueId value) const { return lies_.contains(value); }
  RegionId set_region(ValueId value, RegionId region) { return lies_[value] = region; }
  RegionId add_region(const Layout& layout, Place place, const std::string& name = {}) {
    return add_region(layout, Target::bytes_of(layout), place, name);
  }
  RegionId add_region(const Layout& layout, size_t bytes, Place place, const std::string& name);
  Step<Work>& add_step(const std::vector<RegionId>& reads, const std::vector<RegionId>& writes, Work work);
  Step<Work>& last_step() { return steps_.back(); }
  /// The buffer of this kind into which the only reader accumulates the result.
  std::optional<ValueId> accumulated_into(ValueId result, ValueKind kind) const;
  void set_written_directly(ValueId result) { direct_[result] = true; }

 private:
  struct Parameter {
    bool open = true;
    RegionId region = -1;
    RegionId gradient = -1;
  };

  void declare_values();
  /// Declares running statistics, in plain layout: the gradient graph writes their sums but does not read
  /// them.
  void declare_unread_parameters();
  bool is_open(ValueId value) const;
  void fix_layout(ValueId parameter, const Layout& layout);
  RegionId copied(ValueId value, RegionId from, const Layout& wanted);
  void prepare_with_last_step();
  /// The layout of a value passed between graphs: the agreed one, or else `natural` if the batch is outermost
  /// in it.
  Layout delivery_layout(ValueId value, const std::string& name, const Layout& natural);
  RegionId root_of(RegionId region) const;
  /// Whether no later node reads the value's memory, so that it may be overwritten.
  bool dies_here(ValueId value) const;
  /// The gradient in whose memory the result can be computed.
  std::optional<ValueId> direct_target(ValueId result) const;

  const Graph& graph_;
  CompileOptions options_;
  std::vector<std::vector<int>> uses_;
  int node_ = -1;
  std::vector<Region<Layout>> regions_;
  std::vector<Step<Work>> steps_;
  std::map<ValueId, RegionId> lies_;                 // memory of each value in its own layout
  std::map<ValueId, std::vector<RegionId>> copies_;  // memory of each value in other layouts
  std::map<RegionId, std::vector<ValueId>> holds_;   // values that share a region
  std::map<std::string, Parameter> parameters_;
  std::vector<std::string> parameter_order_;
  std::map<ValueId, ValueId> converted_;
  std::map<ValueId, std::vector<RegionId>> attached_;
  std::map<ValueId, bool> direct_;
  std::map<ValueId, std::string> deliveries_;  // values that are delivered, and their names
  std::map<std::string, TensorLayout> delivered_layouts_;
  size_t prepared_bytes_ = 0;
  bool paused_ = false;
};

}  // namespace telar
