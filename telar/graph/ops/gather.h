#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Elements along an axis by their positions: y[a, m, b] = x[a, indices[a, m, b], b], where `a` are the axes
/// before it and `b` those after it. x: f32 [A…, K, B…]; indices: i32 [A…, M, B…], each 0 … K−1; y: f32
/// [A…, M, B…]. Of the indices, the axes before may begin with ones, and those after may all be 1: then the
/// same indices hold for all places there. An index out of range: a run on a CPU throws Error (user), naming
/// the first; a GPU cannot throw, and gives NaN. The gradient of x is scatter_add.
ValueId gather(GraphBuilder& builder, ValueId x, ValueId indices, int64_t axis);

/// Sums of what has the same position: y[a, k, b] = Σ updates[a, m, b] over the m with indices[a, m, b] = k,
/// for k < `extent`. indices and updates: as indices and y of gather. Sums are in the order of m. The
/// gradient of the updates is gather. A GPU leaves out indices that are out of range.
ValueId scatter_add(GraphBuilder& builder, ValueId indices, ValueId updates, int64_t axis, int64_t extent);

/// Extents of both operations, with the axes before and after as one each.
struct GatherExtents {
  int64_t outer = 1;
  int64_t items = 1;  ///< M
  int64_t inner = 1;
  int64_t extent = 1;          ///< K
  int64_t outer_indices = 1;   ///< the indices of place `a` are those of a mod outer_indices
  bool one_for_inner = false;  ///< whether the indices' axes after are all 1

  /// Where the index of (a, m, b) is.
  int64_t index_at(int64_t a, int64_t m, int64_t b) const {
    const int64_t row = a % outer_indices * items + m;
    return one_for_inner ? row : row * inner + b;
  }
  int64_t indices() const { return outer_indices * items * (one_for_inner ? 1 : inner); }
};

/// `x`: shape [A…, K, B…]. Throws Error (user), naming the shapes, if the indices' shape does not fit.
GatherExtents gather_extents(std::string_view op, const Shape& x, const Shape& indices, size_t axis);

}  // namespace telar
