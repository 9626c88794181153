#include "telar/device/cuda/loops/distributed_batch_norm.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/channels_of.h"
#include "telar/device/cuda/loops/batch_norm.h"
#include "telar/graph/ops/batch_norm.h"

namespace telar::cuda {

namespace {

RegionId floats(Lowering& lowering, int64_t count) {
  return lowering.temporary(static_cast<size_t>(count) * sizeof(float));
}

/// Normalisation by statistics [2·C + 1]: means, biased variances, count. Computes 1 / √(variance + epsilon)
/// into `inverse`.
Normalisation prepare(const float* statistics, float epsilon, const Channels& of, float* inverse,
                      cudaStream_t stream) {
  check(inverse_deviations(statistics + of.channels, epsilon, of.channels, inverse, stream), "deviations");
  return {statistics, inverse, nullptr, nullptr};
}

void lower_batch_norm_statistics(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Channels of = channels_of(lowering, x);
  lowering.add({lowering.region(x)},
               {lowering.define_plain(node.outputs[0]), floats(lowering, batch_norm_pieces(of))},
               [of, dtype = lowering.dtype(x), stream = lowering.stream()](const Pointers& p) {
                 check(part_statistics(p[0], dtype, of, p.get<float>(2), p.get<float>(1), stream),
                       "a batch norm's statistics");
               });
}

void lower_combine_statistics(Lowering& lowering, const Node& node) {
  const ValueId rows = node.inputs[0];
  const std::vector<RegionId> writes{lowering.define_plain(node.outputs[0]),
                                     lowering.define_plain(node.outputs[1]),
                                     lowering.define_plain(node.outputs[2])};
  lowering.add({lowering.plain_region(rows)}, writes,
               [members = lowering.shape(rows)[0], channels = (lowering.shape(rows)[1] - 1) / 2,
                biased = has_biased_variance(node), stream = lowering.stream()](const Pointers& p) {
                 check(
                     combine_statistics(p.get<const float>(0), members, channels,
                                        {p.get<float>(1), p.get<float>(2), p.get<float>(3), biased}, stream),
                     "combining statistics");
               });
}

void lower_batch_norm_apply(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Channels of = channels_of(lowering, x);
  std::vector<RegionId> reads{lowering.region(x)};
  for (size_t i = 1; i < 4; ++i) reads.push_back(lowering.plain_region(node.inputs[i]));
  lowering.add(reads, {lowering.define_in_place(node.outputs[0], x), floats(lowering, of.channels)},
               [of, epsilon = epsilon_of(node), dtype = lowering.dtype(x),
                stream = lowering.stream()](const Pointers& p) {
                 Normalisation by = prepare(p.get<const float>(3), epsilon, of, p.get<float>(5), stream);
                 by.scale = p.get<const float>(1);
                 by.shift = p.get<const float>(2);
                 check(normalise(p[0], dtype, of, by, false, p[4], stream), "a batch norm");
               });
}

void lower_batch_norm_backward_sums(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Channels of = channels_of(lowering, x);
  const std::vector<RegionId> reads{lowering.region(x), lowering.region(node.inputs[1], lowering.layout(x)),
                                    lowering.plain_region(node.inputs[2])};
  std::vector<RegionId> writes;
  for (size_t i = 0; i < 3; ++i) writes.push_back(lowering.define_plain(node.outputs[i]));
  writes.push_back(floats(lowering, of.channels));
  writes.push_back(floats(lowering, batch_norm_pieces(of)));
  lowering.add(reads, writes,
               [of, epsilon = epsilon_of(node), dtype = lowering.dtype(x),
                stream = lowering.stream()](const Pointers& p) {
                 const Normalisation by =
                     prepare(p.get<const float>(2), epsilon, of, p.get<float>(6), stream);
                 check(batch_norm_sums(p[0], p[1], dtype, of, by, false, p.get<float>(7),
                                       {p.get<float>(4), p.get<float>(5), p.get<float>(3)}, stream),
                       "a batch norm's gradients");
               });
}

void lower_batch_norm_backward_apply(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const Channels of = channels_of(lowering, x);
  const RegionId gradient = lowering.region(dy, lowering.layout(x));
  std::vector<RegionId> reads{lowering.region(x), gradient};
  for (size_t i = 2; i < 5; ++i) reads.push_back(lowering.plain_region(node.inputs[i]));
  const RegionId dx = gradient == lowering.region(dy) ? lowering.define_in_place(node.outputs[0], dy)
                                                      : lowering.define(node.outputs[0], lowering.layout(x));
  lowering.add(reads, {dx, floats(lowering, of.channels), floats(lowering, 2 * of.channels)},
               [of, epsilon = epsilon_of(node), dtype = lowering.dtype(x),
                members = lowering.shape(node.inputs[4])[0], stream = lowering.stream()](const Pointers& p) {
                 const auto* statistics = p.get<const float>(3);
                 auto* means = p.get<float>(7);
                 Normalisation by = prepare(statistics, epsilon, of, p.get<float>(6), stream);
                 by.scale = p.get<const float>(2);
                 check(mean_over_members(p.get<const float>(4), members, 2 * of.channels,
                                         statistics + 2 * of.channels, means, stream),
                       "means of gradients");
                 check(batch_norm_slopes(p[0], p[1], dtype, of, by, false, means + of.channels, means, 1.0F,
                                         p[5], stream),
                       "the input gradient of a batch norm");
               });
}

}  // namespace

void register_distributed_batch_norm(Kernels& kernels) {
  kernels.add("batch_norm_apply", lower_batch_norm_apply);
  kernels.add("batch_norm_backward_apply", lower_batch_norm_backward_apply);
  kernels.add("batch_norm_backward_sums", lower_batch_norm_backward_sums);
  kernels.add("batch_norm_statistics", lower_batch_norm_statistics);
  kernels.add("combine_statistics", lower_combine_statistics);
}

}  // namespace telar::cuda
