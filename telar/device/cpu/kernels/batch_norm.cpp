#include "telar/graph/ops/batch_norm.h"
#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

bool has_relu(const Node& node) { return node.attributes.text_or("activation", "") == "relu"; }

void lower_batch_norm(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const int64_t channels = lowering.shape(x)[1];
  const Desc per_channel = plain(DType::f32, {channels});
  const auto pd = batch_normalization_forward(true, lowering.layout(x), epsilon_of(node), has_relu(node));
  const RegionId from = lowering.region(x);
  const RegionId mean = lowering.define(node.outputs[1], per_channel);
  const RegionId variance = lowering.temporary(per_channel);
  std::vector<RegionId> saved{mean, variance};
  Arguments arguments{{DNNL_ARG_SRC, from},
                      {DNNL_ARG_SCALE, lowering.region(node.inputs[1], per_channel)},
                      {DNNL_ARG_SHIFT, lowering.region(node.inputs[2], per_channel)},
                      {DNNL_ARG_MEAN, mean},
                      {DNNL_ARG_VARIANCE, variance},
                      {DNNL_ARG_DST, lowering.define(node.outputs[0], pd.dst_desc())}};
  if (has_relu(node)) {
    saved.push_back(lowering.temporary(pd.workspace_desc()));
    arguments.emplace_back(DNNL_ARG_WORKSPACE, saved.back());
  }
  lowering.attach(node.outputs[3], saved);
  lowering.primitive(pd, dnnl::batch_normalization_forward(pd), std::move(arguments));

  if (!lowering.used(node.outputs[2])) return;
  const int64_t count = lowering.shape(x).elements() / channels;
  const bool corrected = count > 1 && !has_biased_variance(node);
  const float factor = corrected ? static_cast<float>(count) / static_cast<float>(count - 1) : 1.0F;
  lowering.function({variance}, {lowering.define(node.outputs[2], per_channel)}, [=](const Pointers& p) {
    for (int64_t c = 0; c < channels; ++c) p.get<float>(1)[c] = p.get<float>(0)[c] * factor;
  });
}

void lower_batch_norm_backward(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const Desc desc = lowering.layout(x);
  const Desc per_channel = plain(DType::f32, {lowering.shape(x)[1]});
  const auto hint = batch_normalization_forward(true, desc, epsilon_of(node), has_relu(node));
  const auto pd = batch_normalization_backward(desc, desc, epsilon_of(node), has_relu(node), hint);
  const auto& saved = lowering.attached(node.inputs[3]);
  const RegionId from = lowering.region(dy, desc);
  const RegionId scale = lowering.region(node.inputs[2], per_channel);
  lowering.define_in_place(node.outputs[0], dy, desc);
  Arguments arguments{{DNNL_ARG_SRC, lowering.region(x)},
                      {DNNL_ARG_DIFF_DST, from},
                      {DNNL_ARG_SCALE, scale},
                      {DNNL_ARG_SHIFT, scale},  // oneDNN 2 requires a shift but does not read it
                      {DNNL_ARG_MEAN, saved[0]},
                      {DNNL_ARG_VARIANCE, saved[1]},
                      {DNNL_ARG_DIFF_SRC, lowering.region(node.outputs[0])},
                      {DNNL_ARG_DIFF_SCALE, lowering.define(node.outputs[1], per_channel)},
                      {DNNL_ARG_DIFF_SHIFT, lowering.define(node.outputs[2], per_channel)}};
  if (has_relu(node)) arguments.emplace_back(DNNL_ARG_WORKSPACE, saved[2]);
  lowering.primitive(pd, dnnl::batch_normalization_backward(pd), std::move(arguments));
}

void lower_batch_norm_inference(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Desc per_channel = plain(DType::f32, {lowering.shape(x)[1]});
  const auto pd = batch_normalization_forward(false, lowering.layout(x), epsilon_of(node), has_relu(node));
  const RegionId from = lowering.region(x);
  lowering.define_in_place(node.outputs[0], x);
  lowering.primitive(pd, dnnl::batch_normalization_forward(pd),
                     {{DNNL_ARG_SRC, from},
                      {DNNL_ARG_SCALE, lowering.region(node.inputs[1], per_channel)},
                      {DNNL_ARG_SHIFT, lowering.region(node.inputs[2], per_channel)},
                      {DNNL_ARG_MEAN, lowering.region(node.inputs[3], per_channel)},
                      {DNNL_ARG_VARIANCE, lowering.region(node.inputs[4], per_channel)},
                      {DNNL_ARG_DST, lowering.region(node.outputs[0])}});
}

}  // namespace

void register_batch_norm(Kernels& kernels) {
  kernels.add("batch_norm", lower_batch_norm);
  kernels.add("batch_norm_backward", lower_batch_norm_backward);
  kernels.add("batch_norm_inference", lower_batch_norm_inference);
}

}  // namespace telar::cpu
