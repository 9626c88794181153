#include "telar/graph/ops/distributed_batch_norm.h"

#include <gtest/gtest.h>

#include "ops/run_graph.h"
#include "support/gpu_cases.h"
#include "telar/graph/ops/concat.h"
#include "telar/graph/ops/reshape.h"

namespace telar::test {

namespace {

constexpr double kGroupEpsilon = 1e-3;

/// The rows that two members with these values gather.
ValueId gathered(GraphBuilder& builder, ValueId first, ValueId second) {
  const std::vector<int64_t> row{1, builder.type(first).shape[0]};
  return concat(builder, {reshape(builder, first, row), reshape(builder, second, row)}, 0);
}

/// Cases for `output`, a function of the values and gradients of one of two members.
template <typename Output>
std::vector<GpuCase> cases(const std::string& name, const Output& output) {
  std::vector<GpuCase> found;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto add = [&](const std::string& which, const Shape& shape, bool convolved) {
      found.push_back(gpu_case(name + ", " + which, dtype, [&](GraphBuilder& builder, const auto& input) {
        const auto values = [&](const std::string& value) {
          const ValueId given = input(value, shape);
          // A convolution's output has channels last.
          return convolved
                     ? conv2d(builder, given, input("w " + value, {shape[1], shape[1], 1, 1}), kNoValue, {})
                     : given;
        };
        const ValueId x = values("x");
        const ValueId other = values("other");
        const BatchStatistics statistics = combine_statistics(
            builder,
            gathered(builder, batch_norm_statistics(builder, x), batch_norm_statistics(builder, other)));
        return output(builder, x, other, values("dy"), statistics);
      }));
    };
    add("plain", {3, 5, 4, 3}, false);
    add("channels last", {3, 16, 4, 3}, true);
    add("a matrix", {40, 6}, false);
  }
  return found;
}

ValueId per_channel(GraphBuilder& builder, const std::string& name, ValueId x) {
  return builder.input(name, {DType::f32, {builder.type(x).shape[1]}}, false);
}

void expect_all(const std::vector<GpuCase>& cases) {
  for (const GpuCase& one : cases) expect_as_on_processors(one, tested_device());
}

}  // namespace

TEST(DistributedBatchNorm, CombinesStatisticsAsProcessorsDo) {
  expect_all(cases("mean", [](GraphBuilder&, ValueId, ValueId, ValueId, const BatchStatistics& statistics) {
    return statistics.mean;
  }));
  expect_all(cases("variance", [](GraphBuilder&, ValueId, ValueId, ValueId,
                                  const BatchStatistics& statistics) { return statistics.variance; }));
  expect_all(cases("statistics", [](GraphBuilder&, ValueId, ValueId, ValueId,
                                    const BatchStatistics& statistics) { return statistics.statistics; }));
}

TEST(DistributedBatchNorm, NormalisesAsProcessorsDo) {
  expect_all(cases("y", [](GraphBuilder& builder, ValueId x, ValueId, ValueId, const BatchStatistics& s) {
    return batch_norm_apply(builder, x, per_channel(builder, "gamma", x), per_channel(builder, "beta", x),
                            s.statistics, kGroupEpsilon);
  }));
}

TEST(DistributedBatchNorm, ComputesGradientsAsProcessorsDo) {
  expect_all(
      cases("gamma", [](GraphBuilder& builder, ValueId x, ValueId, ValueId dy, const BatchStatistics& s) {
        return batch_norm_backward_sums(builder, x, dy, s.statistics, kGroupEpsilon).gamma;
      }));
  expect_all(
      cases("beta", [](GraphBuilder& builder, ValueId x, ValueId, ValueId dy, const BatchStatistics& s) {
        return batch_norm_backward_sums(builder, x, dy, s.statistics, kGroupEpsilon).beta;
      }));
  expect_all(
      cases("dx", [](GraphBuilder& builder, ValueId x, ValueId other, ValueId dy, const BatchStatistics& s) {
        const ValueId sums = batch_norm_backward_sums(builder, x, dy, s.statistics, kGroupEpsilon).both;
        const ValueId others = batch_norm_backward_sums(builder, other, dy, s.statistics, kGroupEpsilon).both;
        return batch_norm_backward_apply(builder, x, dy, per_channel(builder, "gamma", x), s.statistics,
                                         gathered(builder, sums, others), kGroupEpsilon);
      }));
}

}  // namespace telar::test
