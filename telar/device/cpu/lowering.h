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
  Pointers from(size_t first) const { return Pointers(pointers_.subspan(first)); }

 private:
  std::span<void* const> pointers_;
};

using Function = std::function<void(const Pointers&)>;
using PartFunction = std::function<void(const Pointers&, size_t part)>;
using Arguments = std::vector<std::pair<int, RegionId>>;  ///< DNNL_ARG_… and its region

/// Whether a primitive writes this argument (DNNL_ARG_…).
bool is_written(int argument);

/// Conversion between a TensorLayout of the CPU device and a oneDNN descriptor.
const Desc& native_desc(const TensorLayout& layout);
TensorLayout make_layout(const Desc& desc);

/// What GraphLowering must know about a CPU.
struct Target {
  using Layout = Desc;
  /// A primitive for one thread. Its arguments: DNNL_ARG_…, and which of the step's regions it is.
  struct PartOfWork {
    dnnl::primitive primitive;
    std::vector<std::pair<int, size_t>> arguments;
  };
  /// A oneDNN primitive, a function of ours, or parts that the team's threads take.
  struct Work {
    dnnl::primitive primitive;
    std::vector<int> arguments;  ///< of the primitive: DNNL_ARG_… of each region of the step
    Function function;           ///< with parts: called when all of them have ended; may be empty
    std::vector<PartOfWork> parts;
    PartFunction before;  ///< called on the thread of a part, before its primitive; may be empty
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
  /// Adds work in parts, whose pointers are those of the step.
  void parts(const std::vector<RegionId>& reads, const std::vector<RegionId>& writes, Target::Work work) {
    add_step(reads, writes, std::move(work));
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
