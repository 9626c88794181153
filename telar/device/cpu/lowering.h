#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "telar/core/buffer.h"
#include "telar/device/cpu/onednn.h"
#include "telar/device/lowering.h"

namespace telar::cpu {

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

/// Conversion between a TensorLayout of the CPU device and a oneDNN descriptor.
const Desc& native_desc(const TensorLayout& layout);
TensorLayout make_layout(const Desc& desc);

/// What GraphLowering must know about a CPU.
struct Target {
  using Layout = Desc;
  /// A oneDNN primitive or a function of ours.
  struct Work {
    dnnl::primitive primitive;
    std::vector<int> arguments;  ///< of the primitive: DNNL_ARG_… of each region of the step
    Function function;
  };
  static constexpr size_t kAlignment = telar::kAlignment;

  static Desc plain(const TensorType& type) { return cpu::plain(type.dtype, type.shape); }
  static size_t bytes_of(const Desc& desc) { return desc.get_size(); }
  static Desc with_type(const Desc& desc, DType dtype) { return cpu::with_type(desc, dtype); }
  static bool may_replace(const Desc& old, const Desc& made) { return old == made; }
  static bool batch_is_outermost(const Desc& desc) { return cpu::batch_is_outermost(desc); }
  static Desc for_batch(const Desc& desc, int64_t batch) { return cpu::for_batch(desc, batch); }
  static TensorLayout exported(const Desc& desc) { return make_layout(desc); }
  static Desc imported(const TensorLayout& layout, const TensorType& /*type*/) { return native_desc(layout); }
};

using Region = telar::Region<Desc>;
using Step = telar::Step<Target::Work>;

/// The lowering of a graph to oneDNN primitives and functions of ours.
class Lowering final : public GraphLowering<Target> {
 public:
  using GraphLowering::GraphLowering;

  using GraphLowering::define_in_place;
  RegionId define_in_place(ValueId result, ValueId source) {
    return define_in_place(result, source, layout(source));
  }

  /// Adds a primitive and its scratchpad. Arguments with a negative region are omitted.
  template <typename PrimitiveDesc>
  void primitive(const PrimitiveDesc& pd, const dnnl::primitive& primitive, Arguments arguments) {
    const Desc scratchpad = pd.scratchpad_desc();
    add_primitive(primitive, std::move(arguments), scratchpad);
  }
  /// Adds a function that reads and writes the given memory. Its Pointers are in that order.
  void function(const std::vector<RegionId>& reads, const std::vector<RegionId>& writes, Function function) {
    add_step(reads, writes, {{}, {}, std::move(function)});
  }
  void reorder(RegionId from, RegionId to) override;

 private:
  void lower(const Node& node) override;
  void add_primitive(const dnnl::primitive& primitive, Arguments arguments, const Desc& scratchpad);
};

}  // namespace telar::cpu

namespace telar {
extern template class GraphLowering<cpu::Target>;
}
