#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "telar/device/cuda/gpu.h"
#include "telar/device/cuda/layouts.h"
#include "telar/device/lowering.h"

namespace telar::cuda {

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

/// A tensor and how it is stored; opaque for a temporary.
struct StoredTensor {
  TensorType type;
  Layout layout = Layout::plain;
  bool operator==(const StoredTensor&) const = default;
};

/// What GraphLowering must know about a GPU.
struct Target {
  using Layout = StoredTensor;
  /// Work for the stream.
  struct Work {
    Enqueue enqueue;
    Enqueue choose;  ///< measures algorithms on this memory, once, before the first run; may be empty
  };
  static constexpr size_t kAlignment = kMemoryAlignment;

  static StoredTensor plain(const TensorType& type) { return {type, cuda::Layout::plain}; }
  static size_t bytes_of(const StoredTensor& tensor) { return cuda::bytes_of(tensor.type); }
  static StoredTensor with_type(const StoredTensor& tensor, DType dtype) {
    return {{dtype, tensor.type.shape}, tensor.layout};
  }
  static bool may_replace(const StoredTensor& old, const StoredTensor& made) {
    return old.layout == made.layout && bytes_of(old) == bytes_of(made);
  }
  static bool batch_is_outermost(const StoredTensor& /*tensor*/) { return true; }
  static StoredTensor for_batch(StoredTensor tensor, int64_t batch) {
    tensor.type.shape[0] = batch;
    return tensor;
  }
  static TensorLayout exported(const StoredTensor& tensor) {
    return {tensor.type.shape, bytes_of(tensor), name_of(tensor.layout), nullptr};
  }
  static StoredTensor imported(const TensorLayout& layout, const TensorType& type) {
    return {type, layout_named(layout.format)};
  }
};

using Region = telar::Region<StoredTensor>;
using Step = telar::Step<Target::Work>;

/// The lowering of a graph to work for a GPU's stream. A tensor has one of two layouts, so kernels give the
/// layout, and the value's type is added here.
class Lowering final : public GraphLowering<Target> {
 public:
  using Layout = cuda::Layout;

  Lowering(const Graph& graph, Gpu& gpu, const CompileOptions& options)
      : GraphLowering(graph, options), gpu_(gpu) {}

  Gpu& gpu() const { return gpu_; }
  cudaStream_t stream() const { return gpu_.stream(); }

  Layout layout(ValueId value) const { return GraphLowering::layout(value).layout; }
  Layout layout_of(RegionId region) const { return GraphLowering::layout_of(region).layout; }
  using GraphLowering::region;
  RegionId region(ValueId value, Layout wanted) { return region(value, stored(value, wanted)); }

  /// Defines a value whose elements all equal `number`. They are written only if an operation reads its
  /// memory.
  void define_constant(ValueId value, float number) { constants_[value] = number; }
  /// The number of such a value, for readers that do not need it in memory.
  std::optional<float> constant(ValueId value) const {
    const auto found = constants_.find(value);
    return found == constants_.end() ? std::nullopt : std::optional(found->second);
  }

  RegionId define(ValueId result, Layout layout) {
    return GraphLowering::define(result, stored(result, layout));
  }
  RegionId define_alias(ValueId result, RegionId source, Layout layout) {
    return GraphLowering::define_alias(result, source, stored(result, layout));
  }
  /// In the layout of `source`.
  RegionId define_in_place(ValueId result, ValueId source) {
    return GraphLowering::define_in_place(result, source, stored(result, layout(source)));
  }
  RegionId temporary(size_t bytes) { return add_region({{DType::opaque, {}}}, bytes, Place::activation, {}); }

  /// The metric to which the only reader of the result adds it. The operation that computes the result then
  /// adds it there and does not define the result. None when there is another reader.
  std::optional<RegionId> metric_of(ValueId result);
  /// Whether f32 products and convolutions may use TF32.
  bool tf32() const { return options().tf32; }

  /// Adds a step. Its Pointers are those of `reads`, then those of `writes`. Memory that is read and written
  /// is in `writes`.
  void add(const std::vector<RegionId>& reads, const std::vector<RegionId>& writes, Enqueue enqueue,
           Enqueue choose = {}) {
    add_step(reads, writes, {std::move(enqueue), std::move(choose)});
  }
  void reorder(RegionId from, RegionId to) override;

 private:
  void lower(const Node& node) override;
  /// Constants, and converted parameters in the layout of their first reader.
  void compute_late(ValueId value, const StoredTensor& wanted) override;
  StoredTensor stored(ValueId value, Layout layout) const { return {type(value), layout}; }

  Gpu& gpu_;
  std::map<ValueId, float> constants_;
};

}  // namespace telar::cuda

namespace telar {
extern template class GraphLowering<cuda::Target>;
}
