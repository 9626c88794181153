#pragma once

#include <vector>

#include "telar/device/cpu/onednn.h"

namespace telar::cpu {

/// More of primitives.h: what sequence and attention models need. The same rules: everything that differs
/// between oneDNN 2 and 3 is in the source, and scratchpads are the caller's.

/// Over the last axis; `statistics` describes mean and variance, one for each row.
dnnl::layer_normalization_forward::primitive_desc layer_normalization_forward(const Desc& x,
                                                                              const Desc& statistics,
                                                                              float epsilon);
dnnl::layer_normalization_backward::primitive_desc layer_normalization_backward(const Desc& x,
                                                                                const Desc& statistics,
                                                                                float epsilon);

dnnl::softmax_forward::primitive_desc softmax_forward(const Desc& x, int axis);
dnnl::softmax_backward::primitive_desc softmax_backward(const Desc& y, int axis);

/// The layout of the result is the primitive's choice.
dnnl::concat::primitive_desc concatenation(int axis, const std::vector<Desc>& parts);

/// One recurrent layer, one direction, from zero states, f32.
struct RecurrentShape {
  bool lstm = true;  ///< otherwise a GRU in its linear-before-reset form, PyTorch's
  int64_t steps = 0, batch = 0, inputs = 0, hidden = 0;

  int64_t gates() const { return lstm ? 4 : 3; }
  /// A GRU has a second bias for its new gate, inside the reset.
  int64_t bias_elements() const { return 4 * hidden; }

  /// [N, T, ·] in memory, which is how the engine keeps sequences.
  Desc x() const { return sequence(inputs); }
  Desc y() const { return sequence(hidden); }
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
  Desc sequence(int64_t features) const {
    return {{steps, batch, features}, dnnl::memory::data_type::f32, Tag::ntc};
  }
};

struct RecurrentPrimitive {
  dnnl::rnn_primitive_desc_base pd;
  dnnl::primitive primitive;
};

/// Order of gates: LSTM input, forget, cell, output; GRU update, reset, new.
RecurrentPrimitive recurrent_forward(bool training, const RecurrentShape& shape);
/// Adds to the gradients of weights and bias: zero them before.
RecurrentPrimitive recurrent_backward(const RecurrentShape& shape);

}  // namespace telar::cpu
