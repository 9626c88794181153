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

/// A piece of memory of a compiled graph: an index into Lowering::regions().
using RegionId = int;

/// Where a region's memory comes from when an executable is bound.
enum class Place : uint8_t { activation, parameter, gradient, metric, input };

struct Region {
  TensorType type;  ///< of a temporary: opaque
  Layout layout = Layout::plain;
  size_t bytes = 0;
  Place place = Place::activation;
  std::string name;        ///< of the parameter (also for its gradient), metric or input
  size_t offset = 0;       ///< activation: in the memory plan
  RegionId alias_of = -1;  ///< another description of that region's memory
};

/// The memory of the GPU that a step works on, in the order in which its regions were given.
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

/// Tells the stream to do something with this memory.
using Enqueue = std::function<void(const Pointers&)>;

/// One thing that a run does: work for the stream, or a call back to the host.
struct Step {
  int node = -1;  ///< of the graph, for names
  Enqueue enqueue;
  Enqueue choose;  ///< tries algorithms on this memory, once, before the first run; may be empty
  std::vector<RegionId> regions;  ///< reads first, then writes
  size_t reads = 0;               ///< how many of `regions` are reads; the rest are written
  bool host = false;
  bool reorders = false;  ///< brings a value into another layout
};

/// Turns the nodes of a graph, one after the other, into steps. Kernels (kernels/*.cpp) are functions
/// `void lower_xxx(Lowering&, const Node&)` that ask for inputs in the layout they want, define their outputs
/// and add steps. A value keeps the layout in which it was made; a step is added, once, where a reader wants
/// the other one.
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

  /// The layout in which a value lies. For a parameter whose layout is open: plain.
  Layout layout(ValueId value) const;
  /// The value's memory as it lies.
  RegionId region(ValueId value) { return region(value, layout(value)); }
  /// The value's memory in the wanted layout. A parameter whose layout is open takes this one for good.
  RegionId region(ValueId value, Layout wanted);
  /// In plain layout: what loops that count axes themselves ask for.
  RegionId plain_region(ValueId value) { return region(value, Layout::plain); }

  /// A parameter in another type, which is made of it when somebody reads it, in the layout that the reader
  /// wants.
  void define_converted_parameter(ValueId value, ValueId parameter) { converted_[value] = parameter; }
  /// What a converted parameter is made of, for a reader that converts while it reads.
  std::optional<ValueId> converted_parameter(ValueId value) const {
    const auto found = converted_.find(value);
    return found == converted_.end() ? std::nullopt : std::optional(found->second);
  }

  /// A value of equal numbers, which are written when somebody reads its memory.
  void define_constant(ValueId value, float number) { constants_[value] = number; }
  /// The number, for a reader that needs no memory of it.
  std::optional<float> constant(ValueId value) const {
    const auto found = constants_.find(value);
    return found == constants_.end() ? std::nullopt : std::optional(found->second);
  }

  /// Memory for a result in this layout. When the result's one reader accumulates it into a gradient of the
  /// same layout, the memory is the gradient itself.
  RegionId define(ValueId result, Layout layout);
  RegionId define_plain(ValueId result) { return define(result, Layout::plain); }
  /// The result, of as many bytes, is the memory of `source` seen with another shape or layout.
  RegionId define_alias(ValueId result, RegionId source, Layout layout);
  /// Memory for a result, laid out as `source` lies, that an operation may write element by element over
  /// `source`: its own when both have as many bytes and nobody reads the source again, else new. Ask for the
  /// source's region before.
  RegionId define_in_place(ValueId result, ValueId source);
  /// Memory for this node alone, or, attached to a value, until its last reader.
  RegionId temporary(size_t bytes);
  /// Further memory that travels with an opaque value from the forward to the backward operation.
  void attach(ValueId value, std::vector<RegionId> regions) { attached_[value] = std::move(regions); }
  const std::vector<RegionId>& attached(ValueId value) const { return attached_.at(value); }

  /// Memory of a parameter's gradient, or of a metric (one f32), of which `buffer` is the one.
  RegionId gradient_region(ValueId buffer);
  RegionId metric_region(ValueId buffer);
  /// The metric that the result's one reader adds it to: who makes the result adds it there, and defines it
  /// not. None where there is another reader.
  std::optional<RegionId> metric_of(ValueId result);
  /// Whether the value was made in the gradient, or added to the metric, that it is accumulated into.
  bool written_directly(ValueId value) const { return direct_.contains(value); }
  /// Whether f32 products and convolutions may be those of TF32.
  bool tf32() const { return options_.tf32; }
  Accumulation accumulation() const { return options_.accumulation; }
  Layout layout_of(RegionId region) const { return regions_[static_cast<size_t>(region)].layout; }

  /// Adds a step; Pointers are those of `reads`, then of `writes`. Memory that is both is one of `writes`.
  void add(const std::vector<RegionId>& reads, const std::vector<RegionId>& writes, Enqueue enqueue,
           Enqueue choose = {});
  /// Adds a call of the host for this node, on `region` (or none: −1), in place.
  void host(RegionId region);

  /// Lowers every node. Throws Error (run) naming an operation that GPUs cannot compute.
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
  /// New memory for a value as it is, or in another layout.
  RegionId add_value(ValueId value, Layout layout, Place place = Place::activation, std::string name = {});
  void fix_layout(ValueId parameter, Layout layout);
  /// Running statistics: the gradient graph leaves their sums but does not read them.
  void declare_unread_parameters();
  bool is_open(ValueId value) const;
  RegionId root_of(RegionId region) const;
  bool dies_here(ValueId value) const;
  /// The buffer, of a name that begins so, that the result's one reader accumulates it into.
  std::optional<ValueId> accumulated_into(ValueId result, const std::string& prefix) const;
  /// The gradient in whose memory the result may be made.
  std::optional<ValueId> direct_target(ValueId result) const;

  const Graph& graph_;
  Gpu& gpu_;
  CompileOptions options_;
  std::vector<std::vector<int>> uses_;
  int node_ = -1;
  std::vector<Region> regions_;
  std::vector<Step> steps_;
  std::map<ValueId, RegionId> lies_;                 // where each value lies
  std::map<ValueId, RegionId> copies_;               // the same value in the other layout
  std::map<RegionId, std::vector<ValueId>> shared_;  // values whose memory a region is
  std::map<std::string, Parameter> parameters_;
  std::vector<std::string> parameter_order_;
  std::map<ValueId, ValueId> converted_;
  std::map<ValueId, float> constants_;
  std::map<ValueId, std::vector<RegionId>> attached_;
  std::map<ValueId, bool> direct_;
};

/// Gives every activation region an offset in one block of memory; those in `kept` live to the end. Returns
/// the bytes of the block.
size_t plan_memory(std::vector<Region>& regions, const std::vector<Step>& steps,
                   const std::vector<RegionId>& kept);

}  // namespace telar::cuda
