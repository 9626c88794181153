#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "telar/device/cpu/lowering.h"

namespace telar::cpu {

/// While it exists, this thread creates primitives for one thread.
class ForOneThread {
 public:
  ForOneThread();
  ~ForOneThread();
  ForOneThread(const ForOneThread&) = delete;
  ForOneThread& operator=(const ForOneThread&) = delete;

 private:
  int threads_;
};

/// The step of a node that is computed in parts, each by a primitive for one thread. Some of oneDNN's kernels
/// for several threads wait for each other in loops that neither sleep nor call anybody; parts do not wait
/// (docs/design.md, "A team's parts are taken by whichever thread runs").
class ThreadParts {
 public:
  explicit ThreadParts(Lowering& lowering) : lowering_(lowering) {}

  /// Adds a part. `pd` was created for one thread. A negative region is omitted.
  template <typename PrimitiveDesc>
  void add(const PrimitiveDesc& pd, const dnnl::primitive& primitive, Arguments arguments) {
    const Desc scratchpad = pd.scratchpad_desc();
    add_part(primitive, std::move(arguments), scratchpad);
  }

  /// What the step does besides its primitives. Either function may be empty.
  struct Around {
    std::vector<RegionId> reads, writes;
    /// Called on the thread of a part, before its primitive.
    std::function<void(const Pointers& reads, const Pointers& writes, size_t part)> before;
    /// Called when all parts have ended.
    std::function<void(const Pointers& reads, const Pointers& writes)> after;
  };
  void lower(const Around& around);

 private:
  struct Part {
    dnnl::primitive primitive;
    Arguments arguments;
  };
  void add_part(const dnnl::primitive& primitive, Arguments arguments, const Desc& scratchpad);

  Lowering& lowering_;
  std::vector<Part> parts_;
};

}  // namespace telar::cpu
