#include "telar/device/cpu/weights_to_bf16.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "telar/device/cpu/bf16_loops.h"
#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

constexpr int64_t kTileSide = 16;
constexpr int64_t kBlocksAThread = 64;  // blocks for each thread

/// An axis with several blocks.
struct Axis {
  int64_t blocks = 1;
  BlockSteps steps;
};

/// Converts blocks `begin` to `end`; the last axis is the fastest.
template <typename Loop>
void convert(const std::vector<Axis>& axes, const Loop& loop, const float* from, uint16_t* to, int64_t begin,
             int64_t end) {
  std::vector<int64_t> at(axes.size());
  int64_t rest = begin;
  for (size_t a = axes.size(); a-- > 0; rest /= axes[a].blocks) {
    at[a] = rest % axes[a].blocks;
    from += at[a] * axes[a].steps.from;
    to += at[a] * axes[a].steps.to;
  }
  for (int64_t block = begin; block < end;) {
    size_t a = axes.size() - 1;
    const int64_t run = std::min(axes[a].blocks - at[a], end - block);
    loop(from, to, axes[a].steps, run);
    block += run;
    at[a] += run;
    from += run * axes[a].steps.from;
    to += run * axes[a].steps.to;
    for (; a > 0 && at[a] == axes[a].blocks;
         --a) {  // back to the beginning of this axis, and to the next index of the one before
      from += axes[a - 1].steps.from - at[a] * axes[a].steps.from;
      to += axes[a - 1].steps.to - at[a] * axes[a].steps.to;
      at[a] = 0;
      ++at[a - 1];
    }
  }
}

}  // namespace

WeightsToBf16 weights_to_bf16(const Desc& from, const Desc& to) {
  if (from.data_type() != dnnl::memory::data_type::f32 || to.data_type() != dnnl::memory::data_type::bf16)
    return {};
  const Blocks source = blocks_of(from);
  const Blocks target = blocks_of(to);
  if (from.dims() != to.dims() || source.padded || target.padded) return {};
  if (source.inner.size() != 2 || source.sizes != std::vector<int64_t>{kTileSide, kTileSide}) return {};
  const int row = source.inner[0];
  const int column = source.inner[1];
  const bool rows = target.inner == std::vector<int>{row, column, row};
  const bool columns = target.inner == std::vector<int>{column, row, column};
  if (row == column || !(rows || columns) ||
      target.sizes != std::vector<int64_t>{kTileSide / 2, kTileSide, 2})
    return {};
  std::vector<Axis> axes;
  for (size_t a = 0; a < source.counts.size(); ++a) {
    if (source.counts[a] > 1) axes.push_back({source.counts[a], {source.strides[a], target.strides[a]}});
  }
  if (axes.empty()) axes.emplace_back();
  std::sort(axes.begin(), axes.end(),
            [](const Axis& a, const Axis& b) { return a.steps.from > b.steps.from; });
  const int64_t blocks = std::accumulate(axes.begin(), axes.end(), int64_t{1},
                                         [](int64_t all, const Axis& axis) { return all * axis.blocks; });
  return [=](const float* x, uint16_t* y) {
    parallel_for(blocks, kBlocksAThread, [&](int64_t begin, int64_t end) {
      convert(axes, rows ? rows_in_pairs : columns_in_pairs, x, y, begin, end);
    });
  };
}

}  // namespace telar::cpu
