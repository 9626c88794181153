#pragma once

#include <cstdint>

namespace telar::cpu {

/// A recurrent layer as its kernel sees it, and the data movement around oneDNN's primitive. (recurrent.cpp
/// explains lengths and freezing.) All tensors are f32: sequences [N, T, ·], weights [gates · H, ·], states
/// [N, H].
struct RecurrentLayer {
  bool lstm = true;
  bool lengths = false;
  bool frozen = false;  ///< x has one more feature, which freezes the cell after the sample's length
  int64_t batch = 0, steps = 0, inputs = 0, hidden = 0;

  int64_t gates() const { return lstm ? 4 : 3; }
  int64_t rows() const { return gates() * hidden; }
  int64_t extra() const { return frozen ? 1 : 0; }
};

/// Converts PyTorch's order of gates (GRU: reset, update, new) to oneDNN's (update, reset, new), and back. In
/// the packed form each row has `extra` more weights.
void pack_weights(const RecurrentLayer& layer, const float* from, int64_t columns, int64_t extra, float* to);
void unpack_weights(const RecurrentLayer& layer, const float* from, int64_t columns, int64_t extra,
                    float* to);

/// The primitive's bias [4 · H]: the sum of both biases. For a GRU: the sums for update and reset, then both
/// biases of the new gate separately.
void join_biases(const RecurrentLayer& layer, const float* bias_ih, const float* bias_hh, float* joined);
void part_bias_gradients(const RecurrentLayer& layer, const float* joined, float* bias_ih, float* bias_hh);

/// x with the feature that freezes the cell: zeros, and 1 from the length on.
void widen_inputs(const RecurrentLayer& layer, const float* x, const int32_t* lengths, float* widened);
void narrow_input_gradients(const RecurrentLayer& layer, const float* widened, float* dx);

/// Sets y to zero from the length on, and reads the hidden state at the length.
void cut_outputs(const RecurrentLayer& layer, const float* y, const int32_t* lengths, float* cut,
                 float* hidden);
/// The gradient of cut_outputs: dy before the length, plus dhidden at the last valid step.
void cut_gradients(const RecurrentLayer& layer, const float* dy, const float* dhidden, const int32_t* lengths,
                   float* cut);

}  // namespace telar::cpu
