#pragma once

#include <vector>

#include "telar/device/cpu/onednn.h"

namespace telar::cpu {

/// Continues primitives.h with primitives for sequence and attention models. The same rules apply: everything
/// that differs between oneDNN 2 and 3 is in the source, and the caller provides scratchpads.

/// Normalises over the last axis. `statistics` describes mean and variance, one for each row.
dnnl::layer_normalization_forward::primitive_desc layer_normalization_forward(const Desc& x,
                                                                              const Desc& statistics,
                                                                              float epsilon);
dnnl::layer_normalization_backward::primitive_desc layer_normalization_backward(const Desc& x,
                                                                                const Desc& statistics,
                                                                                float epsilon);

dnnl::softmax_forward::primitive_desc softmax_forward(const Desc& x, int axis);
dnnl::softmax_backward::primitive_desc softmax_backward(const Desc& y, int axis);

/// The primitive chooses the layout of the result.
dnnl::concat::primitive_desc concatenation(int axis, const std::vector<Desc>& parts);

/// One recurrent layer in one direction, f32. Its primitives need initial states, even if these are zeros:
/// without them, the backward pass of oneDNN 2.6 gives a wrong gradient of the recurrent weights for
/// sequences that are stored as [T, N, ·].
struct RecurrentShape {
  bool lstm = true;  ///< false: a GRU in linear-before-reset form, as in PyTorch
  int64_t steps = 0, batch = 0, inputs = 0, hidden = 0;

  int64_t gates() const { return lstm ? 4 : 3; }
  /// A GRU has a second bias for its new gate, inside the reset.
  int64_t bias_elements() const { return 4 * hidden; }

  /// Stored as [T, N, ·]: for these, oneDNN computes the gradients of the weights as one product over all
  /// steps; for [N, T, ·] it makes one for each step.
  Desc x() const { return sequence(inputs, Tag::tnc); }
  Desc y() const { return sequence(hidden, Tag::tnc); }
  /// [N, T, features], the engine's layout of sequences.
  Desc batch_first(int64_t features) const { return sequence(features, Tag::ntc); }
  /// [N, H].
  Desc state() const { return {{1, 1, batch, hidden}, dnnl::memory::data_type::f32, Tag::ldnc}; }
  Desc bias() const {
    return {{1, 1, bias_elements() / hidden, hidden}, dnnl::memory::data_type::f32, Tag::ldgo};
  }
  /// PyTorch's weights, [gates · H, columns], as oneDNN describes them.
  Desc weights(int64_t columns) const {
    return {{1, 1, columns, gates(), hidden}, dnnl::memory::data_type::f32, Tag::ldgoi};
  }

 private:
  Desc sequence(int64_t features, Tag layout) const {
    return {{steps, batch, features}, dnnl::memory::data_type::f32, layout};
  }
};

struct RecurrentPrimitive {
  dnnl::rnn_primitive_desc_base pd;
  dnnl::primitive primitive;
};

/// Order of gates: LSTM input, forget, cell, output; GRU update, reset, new.
RecurrentPrimitive recurrent_forward(bool training, const RecurrentShape& shape);
/// Adds to the gradients of weights and bias, so zero them before.
RecurrentPrimitive recurrent_backward(const RecurrentShape& shape);

}  // namespace telar::cpu
