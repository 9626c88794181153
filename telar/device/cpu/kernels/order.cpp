#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

constexpr int64_t kElementsSortedByAThread = 1 << 12;

/// Elements that are `step` apart, of which `count` positions are wanted.
struct OrderedRow {
  int64_t extent = 1;
  int64_t step = 1;
  int64_t count = 1;
  bool descending = false;

  void write(const float* x, int32_t* y, std::vector<float>& keys, std::vector<int32_t>& places) const {
    for (int64_t k = 0; k < extent; ++k) keys[static_cast<size_t>(k)] = x[k * step];
    std::iota(places.begin(), places.end(), 0);
    const auto is_less = [](float a, float b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
    const auto comes_first = [&](int32_t i, int32_t j) {
      const float a = keys[static_cast<size_t>(i)];
      const float b = keys[static_cast<size_t>(j)];
      if (is_less(a, b)) return !descending;
      if (is_less(b, a)) return descending;
      return i < j;
    };
    if (count == 1) {
      places[0] = *std::min_element(places.begin(), places.end(), comes_first);
    } else if (count < extent) {
      std::partial_sort(places.begin(), places.begin() + count, places.end(), comes_first);
    } else {
      std::sort(places.begin(), places.end(), comes_first);
    }
    for (int64_t k = 0; k < count; ++k) y[k * step] = places[static_cast<size_t>(k)];
  }
};

void lower_order(Lowering& lowering, const Node& node) {
  const Shape& x = lowering.shape(node.inputs[0]);
  const auto axis = static_cast<size_t>(node.attributes.integer("axis"));
  OrderedRow row{x[axis], 1, node.attributes.integer("count"), node.attributes.flag("descending")};
  for (size_t i = axis + 1; i < x.rank(); ++i) row.step *= x[i];
  const int64_t rows = x.elements() / x[axis];
  lowering.function({lowering.plain_region(node.inputs[0])}, {lowering.define_plain(node.outputs[0])},
                    [=](const Pointers& p) {
                      const auto* from = p.get<const float>(0);
                      auto* to = p.get<int32_t>(1);
                      const int64_t grain = std::max<int64_t>(1, kElementsSortedByAThread / row.extent);
                      parallel_for(rows, grain, [=](int64_t begin, int64_t end) {
                        std::vector<float> keys(static_cast<size_t>(row.extent));
                        std::vector<int32_t> places(static_cast<size_t>(row.extent));
                        for (int64_t r = begin; r < end; ++r) {
                          const int64_t outer = r / row.step;
                          const int64_t inner = r % row.step;
                          row.write(from + outer * row.extent * row.step + inner,
                                    to + outer * row.count * row.step + inner, keys, places);
                        }
                      });
                    });
}

}  // namespace

void register_order(Kernels& kernels) { kernels.add("order", lower_order); }

}  // namespace telar::cpu
