#include "telar/device/cpu/sequence_primitives.h"

namespace telar::cpu {

namespace {

dnnl::primitive_attr sequence_attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

constexpr auto kTraining = dnnl::prop_kind::forward_training;
constexpr auto kBackward = dnnl::prop_kind::backward;
constexpr auto kDirection = dnnl::rnn_direction::unidirectional_left2right;

dnnl::normalization_flags scale_and_shift() {
  return dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
}

/// Weights in the primitive's own layout.
Desc weights_any(const RecurrentShape& shape, int64_t columns) {
  return {{1, 1, columns, shape.gates(), shape.hidden}, dnnl::memory::data_type::f32, Tag::any};
}

dnnl::lstm_forward::primitive_desc lstm_forward_of(dnnl::prop_kind kind, const RecurrentShape& s) {
  const dnnl::lstm_forward::desc desc(kind, kDirection, s.x(), s.state(), s.state(), weights_any(s, s.inputs),
                                      weights_any(s, s.hidden), s.bias(), s.y(), s.state(), s.state());
  return {desc, sequence_attributes(), engine()};
}

dnnl::lbr_gru_forward::primitive_desc gru_forward_of(dnnl::prop_kind kind, const RecurrentShape& s) {
  const dnnl::lbr_gru_forward::desc desc(kind, kDirection, s.x(), s.state(), weights_any(s, s.inputs),
                                         weights_any(s, s.hidden), s.bias(), s.y(), s.state());
  return {desc, sequence_attributes(), engine()};
}

}  // namespace

dnnl::layer_normalization_forward::primitive_desc layer_normalization_forward(const Desc& x,
                                                                              const Desc& statistics,
                                                                              float epsilon) {
  return {dnnl::layer_normalization_forward::desc(kTraining, x, statistics, epsilon, scale_and_shift()),
          sequence_attributes(), engine()};
}

dnnl::layer_normalization_backward::primitive_desc layer_normalization_backward(const Desc& x,
                                                                                const Desc& statistics,
                                                                                float epsilon) {
  const auto hint = layer_normalization_forward(x, statistics, epsilon);
  return {dnnl::layer_normalization_backward::desc(kBackward, x, x, statistics, epsilon, scale_and_shift()),
          sequence_attributes(), engine(), hint};
}

dnnl::softmax_forward::primitive_desc softmax_forward(const Desc& x, int axis) {
  return {dnnl::softmax_forward::desc(kTraining, x, axis), sequence_attributes(), engine()};
}

dnnl::softmax_backward::primitive_desc softmax_backward(const Desc& y, int axis) {
  return {dnnl::softmax_backward::desc(y, y, axis), sequence_attributes(), engine(),
          softmax_forward(y, axis)};
}

dnnl::concat::primitive_desc concatenation(int axis, const std::vector<Desc>& parts) {
  return {axis, parts, engine(), sequence_attributes()};
}

RecurrentPrimitive recurrent_forward(bool training, const RecurrentShape& shape) {
  const auto kind = training ? kTraining : dnnl::prop_kind::forward_inference;
  if (shape.lstm) {
    const auto pd = lstm_forward_of(kind, shape);
    return {pd, dnnl::lstm_forward(pd)};
  }
  const auto pd = gru_forward_of(kind, shape);
  return {pd, dnnl::lbr_gru_forward(pd)};
}

RecurrentPrimitive recurrent_backward(const RecurrentShape& s) {
  const Desc weights_layer = weights_any(s, s.inputs);
  const Desc weights_iter = weights_any(s, s.hidden);
  if (s.lstm) {
    const dnnl::lstm_backward::desc desc(kBackward, kDirection, s.x(), s.state(), s.state(), weights_layer,
                                         weights_iter, s.bias(), s.y(), s.state(), s.state(), s.x(),
                                         s.state(), s.state(), weights_layer, weights_iter, s.bias(), s.y(),
                                         s.state(), s.state());
    const dnnl::lstm_backward::primitive_desc pd(desc, sequence_attributes(), engine(),
                                                 lstm_forward_of(kTraining, s));
    return {pd, dnnl::lstm_backward(pd)};
  }
  const dnnl::lbr_gru_backward::desc desc(kBackward, kDirection, s.x(), s.state(), weights_layer,
                                          weights_iter, s.bias(), s.y(), s.state(), s.x(), s.state(),
                                          weights_layer, weights_iter, s.bias(), s.y(), s.state());
  const dnnl::lbr_gru_backward::primitive_desc pd(desc, sequence_attributes(), engine(),
                                                  gru_forward_of(kTraining, s));
  return {pd, dnnl::lbr_gru_backward(pd)};
}

}  // namespace telar::cpu
