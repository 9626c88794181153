#include <algorithm>
#include <array>
#include <optional>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/kernels/common/f32_memory.h"
#include "telar/device/cpu/kernels/common/recurrent_layer.h"
#include "telar/device/cpu/sequence_primitives.h"

// LSTM and GRU through oneDNN's primitives, in f32 for any type of x.
//
// Lengths: a step depends on earlier steps only. So y and the hidden state are correct up to a sample's
// length. From there on, y is set to zero, and the state is read from y at the length. In the backward pass,
// the gradient of the state is added to that of y at the length; after it the gradient is zero. An LSTM's
// cell state is not part of y. If an operation reads it, x gets one more feature, which is 1 from the length
// on. Its weights set the input gate to exactly 0 and the forget gate to exactly 1. The cell then stays
// frozen, and its gradient passes back unchanged.

namespace telar::cpu {

namespace {

/// Inputs of the graph's operations (telar/graph/ops/recurrent.cpp).
enum Input : size_t { kX, kWeightIh, kWeightHh, kBiasIh, kBiasHh, kLengths, kHiddenBefore, kCellBefore };

/// What the forward pass keeps for the backward one.
enum Saved : size_t { kWorkspace, kLayerInput, kLayerOutput, kHidden, kCell, kPackedIh, kPackedHh, kBias };

RecurrentLayer layer_of(const Lowering& lowering, const Node& node, ValueId cell) {
  const Shape& x = lowering.shape(node.inputs[kX]);
  RecurrentLayer layer;
  layer.lstm = node.op->name().starts_with("lstm");
  layer.batch = x[0];
  layer.steps = x[1];
  layer.inputs = x[2];
  layer.hidden = lowering.shape(node.inputs[kWeightHh])[1];
  layer.lengths = node.inputs[kLengths] != kNoValue;
  layer.frozen = layer.lstm && layer.lengths && lowering.used(cell);
  return layer;
}

RecurrentShape primitive_shape(const RecurrentLayer& layer) {
  return {layer.lstm, layer.steps, layer.batch, layer.inputs + layer.extra(), layer.hidden};
}

RegionId zeros(Lowering& lowering, const Desc& desc) {
  const RegionId region = lowering.temporary(desc);
  const size_t bytes = desc.get_size();
  lowering.function({}, {region},
                    [bytes](const Pointers& p) { std::fill_n(p.get<char>(0), bytes, char{0}); });
  return region;
}

RegionId given_or_zeros(Lowering& lowering, ValueId value, const Shape& shape) {
  return value == kNoValue ? zeros(lowering, plain(DType::f32, shape)) : f32_region(lowering, value);
}

/// Weights in oneDNN's order of gates, [gates · H, columns + extra].
RegionId packed_weights(Lowering& lowering, const RecurrentLayer& layer, ValueId weights, int64_t columns,
                        bool widened) {
  const RegionId from = f32_region(lowering, weights);
  if (layer.lstm && !(widened && layer.frozen)) return from;
  const int64_t extra = widened ? layer.extra() : 0;
  const RegionId to = f32_temporary(lowering, {layer.rows(), columns + extra});
  lowering.function({from}, {to}, [=](const Pointers& p) {
    pack_weights(layer, p.get<const float>(0), columns, extra, p.get<float>(1));
  });
  return to;
}

RegionId initial_state(Lowering& lowering, const RecurrentShape& shape, ValueId value) {
  return lowering.view(given_or_zeros(lowering, value, {shape.batch, shape.hidden}), shape.state());
}

RegionId in_layout(Lowering& lowering, RegionId weights, const Desc& as, const Desc& wanted) {
  const RegionId from = lowering.view(weights, as);
  if (as == wanted) return from;
  const RegionId to = lowering.temporary(wanted);
  lowering.reorder(from, to);
  return to;
}

/// [N, T, features] as the primitives read it, [T, N, features].
RegionId time_first(Lowering& lowering, const RecurrentShape& shape, RegionId sequence, const Desc& wanted) {
  const RegionId to = lowering.temporary(wanted);
  lowering.reorder(lowering.view(sequence, shape.batch_first(wanted.dims()[2])), to);
  return to;
}

void to_batch_first(Lowering& lowering, const RecurrentShape& shape, RegionId from, RegionId to,
                    int64_t features) {
  lowering.reorder(from, lowering.view(to, shape.batch_first(features)));
}

void lower_recurrent(Lowering& lowering, const Node& node, ValueId cell, ValueId workspace) {
  const RecurrentLayer layer = layer_of(lowering, node, cell);
  const RecurrentShape shape = primitive_shape(layer);
  const bool training = lowering.used(workspace);
  const RecurrentPrimitive forward = recurrent_forward(training, shape);
  const ValueId y = node.outputs[0];
  const ValueId hidden = node.outputs[1];
  const RegionId lengths = layer.lengths ? lowering.plain_region(node.inputs[kLengths]) : -1;

  RegionId x = f32_region(lowering, node.inputs[kX]);
  if (layer.frozen) {
    const RegionId widened = f32_temporary(lowering, {layer.batch, layer.steps, layer.inputs + 1});
    lowering.function({x, lengths}, {widened}, [=](const Pointers& p) {
      widen_inputs(layer, p.get<const float>(0), p.get<const int32_t>(1), p.get<float>(2));
    });
    x = widened;
  }
  const RegionId x_steps = time_first(lowering, shape, x, shape.x());
  const RegionId y_steps = lowering.temporary(shape.y());
  const RegionId packed_ih = packed_weights(lowering, layer, node.inputs[kWeightIh], layer.inputs, true);
  const RegionId packed_hh = packed_weights(lowering, layer, node.inputs[kWeightHh], layer.hidden, false);
  const RegionId bias = f32_temporary(lowering, {shape.bias_elements()});
  lowering.function({given_or_zeros(lowering, node.inputs[kBiasIh], {layer.rows()}),
                     given_or_zeros(lowering, node.inputs[kBiasHh], {layer.rows()})},
                    {bias}, [=](const Pointers& p) {
                      join_biases(layer, p.get<const float>(0), p.get<const float>(1), p.get<float>(2));
                    });

  // With lengths, the primitive's own state is kept separately: the backward pass reads it unmodified.
  const F32Result y_result(lowering, y);
  const F32Result hidden_result(lowering, hidden);
  const RegionId y_raw = layer.lengths ? f32_temporary(lowering, lowering.shape(y)) : y_result.region;
  const RegionId hidden_raw =
      layer.lengths ? f32_temporary(lowering, lowering.shape(hidden)) : hidden_result.region;
  std::optional<F32Result> cell_result;
  if (layer.lstm) cell_result.emplace(lowering, cell);
  const RegionId cell_raw = layer.lstm ? cell_result->region : -1;
  const RegionId saved = training ? lowering.temporary(forward.pd.workspace_desc()) : -1;

  Arguments arguments{{DNNL_ARG_SRC_LAYER, x_steps},
                      {DNNL_ARG_SRC_ITER, initial_state(lowering, shape, node.inputs[kHiddenBefore])},
                      {DNNL_ARG_WEIGHTS_LAYER, in_layout(lowering, packed_ih, shape.weights(shape.inputs),
                                                         forward.pd.weights_layer_desc())},
                      {DNNL_ARG_WEIGHTS_ITER, in_layout(lowering, packed_hh, shape.weights(shape.hidden),
                                                        forward.pd.weights_iter_desc())},
                      {DNNL_ARG_BIAS, lowering.view(bias, shape.bias())},
                      {DNNL_ARG_DST_LAYER, y_steps},
                      {DNNL_ARG_DST_ITER, lowering.view(hidden_raw, shape.state())},
                      {DNNL_ARG_WORKSPACE, saved}};
  if (layer.lstm) {
    arguments.emplace_back(DNNL_ARG_SRC_ITER_C, initial_state(lowering, shape, node.inputs[kCellBefore]));
    arguments.emplace_back(DNNL_ARG_DST_ITER_C, lowering.view(cell_raw, shape.state()));
  }
  lowering.primitive(forward.pd, forward.primitive, std::move(arguments));
  to_batch_first(lowering, shape, y_steps, y_raw, layer.hidden);
  lowering.attach(workspace, {saved, x_steps, y_steps, hidden_raw, cell_raw, packed_ih, packed_hh, bias});

  if (layer.lengths) {
    lowering.function({y_raw, lengths}, {y_result.region, hidden_result.region}, [=](const Pointers& p) {
      cut_outputs(layer, p.get<const float>(0), p.get<const int32_t>(1), p.get<float>(2), p.get<float>(3));
    });
  }
  y_result.finish(lowering);
  hidden_result.finish(lowering);
  if (layer.lstm) cell_result->finish(lowering);
}

/// Converts the gradient of weights from the primitive's layout and order of gates to PyTorch's.
void unpack_weights_gradient(Lowering& lowering, const RecurrentLayer& layer, RegionId from, const Desc& as,
                             ValueId result, int64_t columns, bool widened) {
  const RegionId to = lowering.define_plain(result);
  if (layer.lstm && !(widened && layer.frozen)) {
    lowering.reorder(from, lowering.view(to, as));
    return;
  }
  const int64_t extra = widened ? layer.extra() : 0;
  const RegionId packed = f32_temporary(lowering, {layer.rows(), columns + extra});
  lowering.reorder(from, lowering.view(packed, as));
  lowering.function({packed}, {to}, [=](const Pointers& p) {
    unpack_weights(layer, p.get<const float>(0), columns, extra, p.get<float>(1));
  });
}

void lower_recurrent_backward(Lowering& lowering, const Node& node) {
  const bool lstm = node.op->name().starts_with("lstm");
  const size_t states = lstm ? 2 : 1;
  const ValueId* outputs = &node.inputs[kHiddenBefore + states];  // of the forward pass
  const ValueId cell = lstm ? outputs[2] : kNoValue;
  const auto& saved = lowering.attached(outputs[1 + states]);
  const ValueId* gradients = &outputs[2 + states];  // of y, hidden, cell
  const RecurrentLayer layer = layer_of(lowering, node, cell);
  const RecurrentShape shape = primitive_shape(layer);
  const RecurrentPrimitive backward = recurrent_backward(shape);
  const Shape y{layer.batch, layer.steps, layer.hidden};
  const Shape state{layer.batch, layer.hidden};

  RegionId dy = given_or_zeros(lowering, gradients[0], y);
  RegionId dhidden = given_or_zeros(lowering, gradients[1], state);
  const RegionId dcell = layer.lstm ? given_or_zeros(lowering, gradients[2], state) : -1;
  if (layer.lengths) {
    const RegionId cut = f32_temporary(lowering, y);
    lowering.function({dy, dhidden, lowering.plain_region(node.inputs[kLengths])}, {cut},
                      [=](const Pointers& p) {
                        cut_gradients(layer, p.get<const float>(0), p.get<const float>(1),
                                      p.get<const int32_t>(2), p.get<float>(3));
                      });
    dy = cut;
    dhidden = zeros(lowering, plain(DType::f32, state));
  }

  const RegionId dweights_layer = zeros(lowering, backward.pd.diff_weights_layer_desc());
  const RegionId dweights_iter = zeros(lowering, backward.pd.diff_weights_iter_desc());
  const RegionId dbias = zeros(lowering, plain(DType::f32, {shape.bias_elements()}));
  const F32Result dx(lowering, node.outputs[0]);
  const RegionId dx_wide =
      layer.frozen ? f32_temporary(lowering, {layer.batch, layer.steps, layer.inputs + 1}) : dx.region;
  const RegionId dx_steps = lowering.temporary(shape.x());
  const F32Result dhidden_before(lowering, node.outputs[5]);
  std::optional<F32Result> dcell_before;
  if (layer.lstm) dcell_before.emplace(lowering, node.outputs[6]);
  Arguments arguments{
      {DNNL_ARG_WORKSPACE, saved[kWorkspace]},
      {DNNL_ARG_SRC_LAYER, saved[kLayerInput]},
      {DNNL_ARG_SRC_ITER, initial_state(lowering, shape, node.inputs[kHiddenBefore])},
      {DNNL_ARG_WEIGHTS_LAYER,
       in_layout(lowering, saved[kPackedIh], shape.weights(shape.inputs), backward.pd.weights_layer_desc())},
      {DNNL_ARG_WEIGHTS_ITER,
       in_layout(lowering, saved[kPackedHh], shape.weights(shape.hidden), backward.pd.weights_iter_desc())},
      {DNNL_ARG_BIAS, lowering.view(saved[kBias], shape.bias())},
      {DNNL_ARG_DST_LAYER, saved[kLayerOutput]},
      {DNNL_ARG_DST_ITER, lowering.view(saved[kHidden], shape.state())},
      {DNNL_ARG_DIFF_DST_LAYER, time_first(lowering, shape, dy, shape.y())},
      {DNNL_ARG_DIFF_DST_ITER, lowering.view(dhidden, shape.state())},
      {DNNL_ARG_DIFF_SRC_LAYER, dx_steps},
      {DNNL_ARG_DIFF_SRC_ITER, lowering.view(dhidden_before.region, shape.state())},
      {DNNL_ARG_DIFF_WEIGHTS_LAYER, dweights_layer},
      {DNNL_ARG_DIFF_WEIGHTS_ITER, dweights_iter},
      {DNNL_ARG_DIFF_BIAS, lowering.view(dbias, shape.bias())}};
  if (layer.lstm) {
    arguments.emplace_back(DNNL_ARG_DST_ITER_C, lowering.view(saved[kCell], shape.state()));
    arguments.emplace_back(DNNL_ARG_SRC_ITER_C, initial_state(lowering, shape, node.inputs[kCellBefore]));
    arguments.emplace_back(DNNL_ARG_DIFF_SRC_ITER_C, lowering.view(dcell_before->region, shape.state()));
    arguments.emplace_back(DNNL_ARG_DIFF_DST_ITER_C, lowering.view(dcell, shape.state()));
  }
  lowering.primitive(backward.pd, backward.primitive, std::move(arguments));
  to_batch_first(lowering, shape, dx_steps, dx_wide, shape.inputs);

  if (layer.frozen) {
    lowering.function({dx_wide}, {dx.region}, [=](const Pointers& p) {
      narrow_input_gradients(layer, p.get<const float>(0), p.get<float>(1));
    });
  }
  dx.finish(lowering);
  dhidden_before.finish(lowering);
  if (layer.lstm) dcell_before->finish(lowering);
  unpack_weights_gradient(lowering, layer, dweights_layer, shape.weights(shape.inputs), node.outputs[1],
                          layer.inputs, true);
  unpack_weights_gradient(lowering, layer, dweights_iter, shape.weights(shape.hidden), node.outputs[2],
                          layer.hidden, false);
  lowering.function({dbias}, {lowering.define_plain(node.outputs[3]), lowering.define_plain(node.outputs[4])},
                    [=](const Pointers& p) {
                      part_bias_gradients(layer, p.get<const float>(0), p.get<float>(1), p.get<float>(2));
                    });
}

void lower_lstm(Lowering& lowering, const Node& node) {
  lower_recurrent(lowering, node, node.outputs[2], node.outputs[3]);
}

void lower_gru(Lowering& lowering, const Node& node) {
  lower_recurrent(lowering, node, kNoValue, node.outputs[2]);
}

void lower_lstm_backward(Lowering& lowering, const Node& node) { lower_recurrent_backward(lowering, node); }

void lower_gru_backward(Lowering& lowering, const Node& node) { lower_recurrent_backward(lowering, node); }

}  // namespace

void register_recurrent(Kernels& kernels) {
  kernels.add("gru", lower_gru);
  kernels.add("gru_backward", lower_gru_backward);
  kernels.add("lstm", lower_lstm);
  kernels.add("lstm_backward", lower_lstm_backward);
}

}  // namespace telar::cpu
