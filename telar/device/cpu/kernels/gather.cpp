#include "telar/graph/ops/gather.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

constexpr int64_t kMovesAThread = 1 << 13;

GatherExtents extents_of(const Lowering& lowering, const Node& node, ValueId x, ValueId indices) {
  return gather_extents(node.op->name(), lowering.shape(x), lowering.shape(indices),
                        static_cast<size_t>(node.attributes.integer("axis")));
}

void check_indices(const int32_t* indices, const GatherExtents& of, std::string_view op,
                   const std::string& scope) {
  const int64_t count = of.indices();
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] >= 0 && indices[i] < of.extent) continue;
    throw user_error("layer '{}': {}: index {} at position {}; indices are 0 to {}", scope, op, indices[i], i,
                     of.extent - 1);
  }
}

/// Calls move(a, m, b, k, count) for neighbouring places b … b + count − 1 that have the same index k, in the
/// order of m; places `a` are divided among the threads.
template <typename Move>
void for_each_move(const GatherExtents& of, const int32_t* indices, const Move& move) {
  const int64_t each = std::max<int64_t>(1, of.items * of.inner);
  parallel_for(of.outer, std::max<int64_t>(1, kMovesAThread / each), [=](int64_t begin, int64_t end) {
    for (int64_t a = begin; a < end; ++a) {
      for (int64_t m = 0; m < of.items; ++m) {
        const int64_t width = of.one_for_inner ? of.inner : 1;
        for (int64_t b = 0; b < of.inner; b += width) move(a, m, b, indices[of.index_at(a, m, b)], width);
      }
    }
  });
}

void lower_gather(Lowering& lowering, const Node& node) {
  const GatherExtents of = extents_of(lowering, node, node.inputs[0], node.inputs[1]);
  const std::vector<RegionId> reads{lowering.plain_region(node.inputs[0]),
                                    lowering.plain_region(node.inputs[1])};
  lowering.function(
      reads, {lowering.define_plain(node.outputs[0])}, [=, scope = node.scope](const Pointers& p) {
        const auto* x = p.get<const float>(0);
        const auto* indices = p.get<const int32_t>(1);
        auto* y = p.get<float>(2);
        check_indices(indices, of, "gather", scope);
        for_each_move(of, indices, [=](int64_t a, int64_t m, int64_t b, int64_t k, int64_t count) {
          std::copy_n(x + (a * of.extent + k) * of.inner + b, count, y + (a * of.items + m) * of.inner + b);
        });
      });
}

void lower_scatter_add(Lowering& lowering, const Node& node) {
  const GatherExtents of = extents_of(lowering, node, node.outputs[0], node.inputs[0]);
  const std::vector<RegionId> reads{lowering.plain_region(node.inputs[0]),
                                    lowering.plain_region(node.inputs[1])};
  lowering.function(
      reads, {lowering.define_plain(node.outputs[0])}, [=, scope = node.scope](const Pointers& p) {
        const auto* indices = p.get<const int32_t>(0);
        const auto* updates = p.get<const float>(1);
        auto* y = p.get<float>(2);
        check_indices(indices, of, "scatter_add", scope);
        std::fill_n(y, of.outer * of.extent * of.inner, 0.0F);
        for_each_move(of, indices, [=](int64_t a, int64_t m, int64_t b, int64_t k, int64_t count) {
          const float* from = updates + (a * of.items + m) * of.inner + b;
          float* to = y + (a * of.extent + k) * of.inner + b;
          for (int64_t i = 0; i < count; ++i) to[i] += from[i];
        });
      });
}

}  // namespace

void register_gather(Kernels& kernels) {
  kernels.add("gather", lower_gather);
  kernels.add("scatter_add", lower_scatter_add);
}

}  // namespace telar::cpu
