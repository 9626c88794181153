#include "telar/core/error.h"
#include "telar/graph/ops/gather.h"

namespace telar {

GatherExtents gather_extents(std::string_view op, const Shape& x, const Shape& indices, size_t axis) {
  const auto misfit = [&] {
    return user_error(
        "{}: indices {} along axis {} of {}; the axes before must be the same, or begin with ones, and those after the same, or all 1",
        op, indices.str(), axis, x.str());
  };
  if (axis >= x.rank() || indices.rank() != x.rank()) throw misfit();
  GatherExtents found;
  found.extent = x[axis];
  found.items = indices[axis];
  bool ones = true;
  for (size_t i = 0; i < axis; ++i) {
    ones = ones && indices[i] == 1;
    if (!ones && indices[i] != x[i]) throw misfit();
    found.outer *= x[i];
    found.outer_indices *= indices[i];
  }
  int64_t after = 1;
  bool same = true;
  for (size_t i = axis + 1; i < x.rank(); ++i) {
    found.inner *= x[i];
    after *= indices[i];
    same = same && indices[i] == x[i];
  }
  if (!same && after != 1) throw misfit();
  found.one_for_inner = !same;
  return found;
}

}  // namespace telar
