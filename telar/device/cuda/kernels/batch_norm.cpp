#include "telar/device/cuda/loops/batch_norm.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/batch_norm_plans.h"
#include "telar/device/cuda/kernels/common/channels_of.h"
#include "telar/graph/ops/batch_norm.h"

namespace telar::cuda {

namespace {

bool has_relu(const Node& node) { return node.attributes.text_or("activation", "") == "relu"; }

BatchNormForm form_of(const Node& node, const TensorType& x) {
  return {.x = x, .epsilon = epsilon_of(node), .relu = has_relu(node)};
}
BatchNormForm backward_form_of(const Node& node, const TensorType& x) {
  return {.x = x, .relu = has_relu(node), .backward = true};
}

RegionId pieces_for(Lowering& lowering, const Channels& of) {
  return lowering.temporary(static_cast<size_t>(batch_norm_pieces(of)) * sizeof(float));
}

/// What the forward operation keeps for the backward one, [3, C] f32: mean, 1 / √(variance + epsilon), and
/// the shift, from which a ReLU is recomputed.
struct Kept {
  float* mean;
  float* inverse;
  float* shift;
  Kept(float* memory, const Channels& of)
      : mean(memory), inverse(memory + of.channels), shift(memory + 2 * of.channels) {}
};

/// Adds a step that one of these ways computes. The workspace is the last of `writes`.
void add_step(Lowering& lowering, const std::shared_ptr<BatchNormPlans>& plans,
              const std::vector<RegionId>& reads, std::vector<RegionId> writes,
              const std::function<BatchNormMemory(const Pointers&)>& memory,
              const std::function<BatchNormPlans::Loops(const Pointers&)>& loops) {
  if (!plans) {
    lowering.add(reads, writes, [=](const Pointers& p) { loops(p).all(); });
    return;
  }
  writes.push_back(lowering.temporary(plans->workspace()));
  const auto whole = [memory, last = reads.size() + writes.size() - 1](const Pointers& p) {
    BatchNormMemory found = memory(p);
    found.workspace = p[last];
    return found;
  };
  lowering.add(
      reads, writes, [=](const Pointers& p) { plans->run(whole(p), loops(p)); },
      [=](const Pointers& p) { plans->choose(whole(p), loops(p)); });
}

void lower_batch_norm(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Channels of = channels_of(lowering, x);
  const bool relu = has_relu(node);
  const float epsilon = epsilon_of(node);
  const std::vector<RegionId> reads{lowering.region(x), lowering.plain_region(node.inputs[1]),
                                    lowering.plain_region(node.inputs[2])};
  const RegionId kept = lowering.temporary(static_cast<size_t>(3 * of.channels) * sizeof(float));
  lowering.attach(node.outputs[3], {kept});
  const std::vector<RegionId> writes{lowering.define(node.outputs[0], lowering.layout(x)),
                                     lowering.define_plain(node.outputs[1]),
                                     lowering.define_plain(node.outputs[2]), kept, pieces_for(lowering, of)};
  const auto memory = [of](const Pointers& p) {
    const Kept known(p.get<float>(6), of);
    return BatchNormMemory{
        .x = p[0], .scale = p[1], .shift = p[2], .mean = known.mean, .inverse = known.inverse, .y = p[3]};
  };
  const auto loops = [of, epsilon, relu, biased = has_biased_variance(node), dtype = lowering.dtype(x),
                      stream = lowering.stream()](const Pointers& p) {
    const auto* scale = p.get<const float>(1);
    const auto* shift = p.get<const float>(2);
    const Kept known(p.get<float>(6), of);
    const BatchStatisticsMemory to{p.get<float>(4), p.get<float>(5), known.mean,
                                   known.inverse,   known.shift,     biased};
    return BatchNormPlans::Loops{
        [=] {
          check(batch_statistics(p[0], dtype, of, epsilon, shift, p.get<float>(7), to, stream),
                "a batch norm's statistics");
          check(normalise(p[0], dtype, of, {known.mean, known.inverse, scale, shift}, relu, p[3], stream),
                "a batch norm");
        },
        [=] { check(statistics_of_kept(of, epsilon, shift, to, stream), "a batch norm's statistics"); }};
  };
  add_step(lowering, find_batch_norm_plans(lowering, x, form_of(node, lowering.type(x))), reads, writes,
           memory, loops);
}

void lower_batch_norm_backward(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const Channels of = channels_of(lowering, x);
  const bool relu = has_relu(node);
  const auto plans = find_batch_norm_plans(lowering, x, backward_form_of(node, lowering.type(x)));
  const RegionId gradient = lowering.region(dy, lowering.layout(x));
  const std::vector<RegionId> reads{lowering.region(x), gradient, lowering.plain_region(node.inputs[2]),
                                    lowering.attached(node.inputs[3])[0]};
  const bool in_place = !plans && gradient == lowering.region(dy);
  const RegionId dx = in_place ? lowering.define_in_place(node.outputs[0], dy)
                               : lowering.define(node.outputs[0], lowering.layout(x));
  const std::vector<RegionId> writes{dx, lowering.define_plain(node.outputs[1]),
                                     lowering.define_plain(node.outputs[2]), pieces_for(lowering, of)};
  const auto memory = [of](const Pointers& p) {
    const Kept known(p.get<float>(3), of);
    return BatchNormMemory{.x = p[0],
                           .scale = p[2],
                           .shift = known.shift,
                           .mean = known.mean,
                           .inverse = known.inverse,
                           .dy = p[1],
                           .dx = p[4],
                           .scale_gradient = p[5],
                           .shift_gradient = p[6]};
  };
  const auto loops = [of, relu, dtype = lowering.dtype(x), stream = lowering.stream()](const Pointers& p) {
    const Kept known(p.get<float>(3), of);
    const Normalisation by{known.mean, known.inverse, p.get<const float>(2), known.shift};
    const float factor = 1.0F / static_cast<float>(of.length());
    return BatchNormPlans::Loops{
        [=] {
          auto* dscale = p.get<float>(5);
          auto* dshift = p.get<float>(6);
          check(batch_norm_sums(p[0], p[1], dtype, of, by, relu, p.get<float>(7), {dscale, dshift, nullptr},
                                stream),
                "a batch norm's gradients");
          check(batch_norm_slopes(p[0], p[1], dtype, of, by, relu, dscale, dshift, factor, p[4], stream),
                "the input gradient of a batch norm");
        },
        {}};
  };
  add_step(lowering, plans, reads, writes, memory, loops);
}

void lower_batch_norm_inference(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Channels of = channels_of(lowering, x);
  std::vector<RegionId> reads{lowering.region(x)};
  for (size_t i = 1; i < 5; ++i) reads.push_back(lowering.plain_region(node.inputs[i]));
  const RegionId inverse = lowering.temporary(static_cast<size_t>(of.channels) * sizeof(float));
  lowering.add(
      reads, {lowering.define_in_place(node.outputs[0], x), inverse},
      [of, epsilon = epsilon_of(node), relu = has_relu(node), dtype = lowering.dtype(x),
       stream = lowering.stream()](const Pointers& p) {
        auto* inverses = p.get<float>(6);
        check(inverse_deviations(p.get<const float>(4), epsilon, of.channels, inverses, stream),
              "deviations");
        const Normalisation by{p.get<const float>(3), inverses, p.get<const float>(1), p.get<const float>(2)};
        check(normalise(p[0], dtype, of, by, relu, p[5], stream), "a batch norm");
      });
}

}  // namespace

void plan_batch_norms(Gpu& gpu, const Graph& graph) {
  std::vector<BatchNormForm> forms;
  for (const Node& node : graph.nodes()) {
    const auto x = [&]() -> const TensorType& { return graph.value(node.inputs[0]).type; };
    if (node.op->name() == "batch_norm") forms.push_back(form_of(node, x()));
    if (node.op->name() == "batch_norm_backward") forms.push_back(backward_form_of(node, x()));
  }
  plan_batch_norms(gpu, forms);
}

void register_batch_norm(Kernels& kernels) {
  kernels.add("batch_norm", lower_batch_norm);
  kernels.add("batch_norm_backward", lower_batch_norm_backward);
  kernels.add("batch_norm_inference", lower_batch_norm_inference);
}

}  // namespace telar::cuda
