#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "telar/device/cuda/gpu.h"
#include "telar/device/cuda/layouts.h"
#include "telar/device/device.h"
#include "telar/graph/graph.h"

namespace telar::cuda {

/// The memory of a value or temporary in a compiled graph: an index into Lowering::regions().
using RegionId = int;

/// Where the memory of a region comes from when an executable is bound.
enum class Place : uint8_t { activation, parameter, gradient, metric, input };

struct Region {
  TensorType type;  ///< opaque for a temporary
  Layout layout = Layout::plain;
  size_t bytes = 0;
  Place place = Place::activation;
  std::string name;        ///< of the parameter (for its gradient, too), metric or input
  size_t offset = 0;       ///< of an activation in the memory plan
  RegionId alias_of = -1;  ///< the region whose memory this one describes in another way
};

/// Device pointers that a step works on, in the order in which its regions were given.
class Pointers {
 public:
  explicit Pointers(std::span<std::byte* const> pointers) : pointers_(pointers) {}
  std::byte* operator[](size_t i) const { return pointers_[i]; }
  template <typename T>
  T* get(size_t i) const {
    return reinterpret_cast<T*>(pointers_[i]);
  }

 private:
  std::span<std::byte* const> pointers_;
};

/// Puts work on the stream, for this memory.
using Enqueue = std::function<void(const Pointers&)>;

/// One step of a run: work for the stream, or a call to the host.
struct Step {
  int node = -1;  ///< node of the graph, for its name
  Enqueue enqueue;
  Enqueue choose;  ///< measures algorithms on this memory, once, before the first run; may be empty
  std::vector<RegionId> regions;  ///< reads first, then writes
  size_t reads = 0;               ///< number of regions that are read; the rest are written
  bool host = false;
  bool reorders = false;  ///< converts a value to another layout
};

/// Turns the nodes of a graph into steps, one after the other. Kernels (kernels/*.cpp) are functions `void
/// lower_xxx(Lowering&, const Node&)`. They request inputs in the layout they need, define their outputs and
/// add steps. A value keeps the layout in which it was computed. The first reader that needs the other layout
/// adds a conversion step.
class Lowering {
 public:
  Lowering(const Graph& graph, Gpu& gpu, const CompileOptions& options);

  Gpu& gpu() const { return gpu_; }
  cudaStream_t stream() const { return gpu_.stream(); }
  const Graph& graph() const { return graph_; }
  const TensorType& type(ValueId value) const { return graph_.value(value).type; }
  const Shape& shape(ValueId value) const { return type(value).shape; }
  DType dtype(ValueId value) const { return type(value).dtype; }
  bool used(ValueId value) const { return !uses_[static_cast<size_t>(value)].empty(); }

  /// The layout of a value; plain for a parameter whose layout is still open.
  Layout layout(ValueId value) const;
  /// The memory of a value in its own layout.
  RegionId region(ValueId value) { return region(value, layout(value)); }
  /// The memory of a value in the wanted layout. A parameter whose layout is open gets this one for good.
  RegionId region(ValueId value, Layout wanted);
  /// In plain layout, for loops that index axes themselves.
  RegionId plain_region(ValueId value) { return region(value, Layout::plain); }

  /// Defines a value as a parameter in another type. It is converted when an operation reads it, in the
  /// reader's layout.
  void define_converted_parameter(ValueId value, ValueId parameter) { converted_[value] = parameter; }
  /// The source of a converted parameter, for readers that convert while they read.
  std::optional<ValueId> converted_parameter(ValueId value) const {
    const auto found = converted_.find(value);
    return found == converted_.end() ? std::nullopt : std::optional(found->second);
  }

  /// Defines a value whose elements all equal `number`. They are written only if an operation reads its
  /// memory.
  void define_constant(ValueId value, float number) { constants_[value] = number; }
  /// The number of such a value, for readers that do not need it in memory.
  std::optional<float> constant(ValueId value) const {
    const auto found = constants_.find(value);
    return found == constants_.end() ? std::nullopt : std::optional(found->second);
  }

  /// Memory for a result in this layout. If the only reader accumulates the result into a gradient of the
  /// same layout, this is the gradient's memory.
  RegionId define(ValueId result, Layout layout);
  RegionId define_plain(ValueId result) { return define(result, Layout::plain); }
  /// Defines the result as the memory of `source` with another shape or layout. Both have the same size.
  RegionId define_alias(ValueId result, RegionId source, Layout layout);
  /// Memory for a result, in the layout of `source`, for an operation that may overwrite `source` element by
  /// element. It is the memory of `source` when both have the same size and `source` is not read again,
  /// otherwise new. Request the region of `source` first.
  RegionId define_in_place(ValueId result, ValueId source);
  /// Memory for this node only or, when attached to a value, until that value's last reader.
  RegionId temporary(size_t bytes);
  /// Attaches more memory to an opaque value, which the forward operation passes to the backward one.
  void attach(ValueId value, std::vector<RegionId> regions) { attached_[value] = std::move(regions); }
  const std::vector<RegionId>& attached(ValueId value) const { return attached_.at(value); }

  /// The memory of the parameter gradient, or of the metric (one f32), that `buffer` refers to.
  RegionId gradient_region(ValueId buffer);
  RegionId metric_region(ValueId buffer);
  /// The metric to which the only reader of the result adds it. The operation that computes the result then
  /// adds it there and does not define the result. None when there is another reader.
  std::optional<RegionId> metric_of(ValueId result);
  /// Whether the value was computed in the gradient, or added to the metric, into which it is accumulated.
  bool written_directly(ValueId value) const { return direct_.contains(value); }
  /// Whether f32 products and convolutions may use TF32.
  bool tf32() const { return options_.tf32; }
  Accumulation accumulation() const { return options_.accumulation; }
  Layout layout_of(RegionId region) const { return regions_[static_cast<size_t>(region)].layout; }

  /// Adds a step. Its Pointers are those of `reads`, then those of `writes`. Memory that is read and written
  /// is in `writes`.
  void add(const std::vector<RegionId>& reads, const std::vector<RegionId>& writes, Enqueue enqueue,
           Enqueue choose = {});
  /// Adds a host call for this node, on `region` in place (−1: none).
  void host(RegionId region);

  /// Lowers all nodes. Throws Error (run) naming an operation that GPUs cannot compute.
  void run();
  std::vector<Region> take_regions() { return std::move(regions_); }
  std::vector<Step> take_steps() { return std::move(steps_); }
  std::vector<std::pair<std::string, TensorLayout>> parameter_layouts() const;

 private:
  struct Parameter {
    bool open = true;
    RegionId region = -1;
    RegionId gradient = -1;
  };

  RegionId add_region(Region region);
  /// New memory for a value.
  RegionId add_value(ValueId value, Layout layout, Place place = Place::activation, std::string name = {});
  void fix_layout(ValueId parameter, Layout layout);
  /// Declares running statistics: the gradient graph writes their sums but does not read them.
  void declare_unread_parameters();
  bool is_open(ValueId value) const;
  RegionId root_of(RegionId region) const;
  bool dies_here(ValueId value) const;
  /// The buffer, with a name of this prefix, into which the only reader accumulates the result.
  std::optional<ValueId> accumulated_into(ValueId result, const std::string& prefix) const;
  /// The gradient in whose memory the result can be computed.
  std::optional<ValueId> direct_target(ValueId result) const;

  const Graph& graph_;
  Gpu& gpu_;
  CompileOptions options_;
  std::vector<std::vector<int>> uses_;
  int node_ = -1;
  std::vector<Region> regions_;
  std::vector<Step> steps_;
  std::map<ValueId, RegionId> lies_;                 // memory of each value in its own layout
  std::map<ValueId, RegionId> copies_;               // memory of each value in the other layout
  std::map<RegionId, std::vector<ValueId>> shared_;  // values stored in a region
  std::map<std::string, Parameter> parameters_;
  std::vector<std::string> parameter_order_;
  std::map<ValueId, ValueId> converted_;
  std::map<ValueId, float> constants_;
  std::map<ValueId, std::vector<RegionId>> attached_;
  std::map<ValueId, bool> direct_;
};

/// Gives every activation region an offset in one block of memory. Regions in `kept` live until the end.
/// Returns the size of the block in bytes.
size_t plan_memory(std::vector<Region>& regions, const std::vector<Step>& steps,
                   const std::vector<RegionId>& kept);

}  // namespace telar::cuda
