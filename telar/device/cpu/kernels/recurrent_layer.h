#pragma once

#include <cstdint>

namespace telar::cpu {

/// A recurrent layer as its kernel sees it (recurrent.cpp says how lengths and freezing work), and what is
/// done to memory around oneDNN's primitive. All tensors f32: sequences [N, T, ·], weights [gates · H, ·],
/// states [N, H].
struct RecurrentLayer {
  bool lstm = true;
  bool lengths = false;
  bool frozen = false;  ///< x has one more feature, which stops the cell beyond the sample's length
  int64_t batch = 0, steps = 0, inputs = 0, hidden = 0;

  int64_t gates() const { return lstm ? 4 : 3; }
  int64_t rows() const { return gates() * hidden; }
  int64_t extra() const { return frozen ? 1 : 0; }
};

/// PyTorch's order of gates (GRU: reset, update, new) to oneDNN's (update, reset, new), each row widened by
/// `extra` weights; and back.
void pack_weights(const RecurrentLayer& layer, const float* from, int64_t columns, int64_t extra, float* to);
void unpack_weights(const RecurrentLayer& layer, const float* from, int64_t columns, int64_t extra,
                    float* to);

/// The primitive's bias [4 · H]: the sum of the two; for a GRU update, reset, and those of the new gate
/// apart.
void join_biases(const RecurrentLayer& layer, const float* bias_ih, const float* bias_hh, float* joined);
void part_bias_gradients(const RecurrentLayer& layer, const float* joined, float* bias_ih, float* bias_hh);

/// x with the feature that freezes the cell: zeros and 1 from the length on.
void widen_inputs(const RecurrentLayer& layer, const float* x, const int32_t* lengths, float* widened);
void narrow_input_gradients(const RecurrentLayer& layer, const float* widened, float* dx);

/// y blanked from the length on, and the hidden state at the length.
void cut_outputs(const RecurrentLayer& layer, const float* y, const int32_t* lengths, float* cut,
                 float* hidden);
/// Its gradient: dy before the length, plus dhidden at the last step that counts.
void cut_gradients(const RecurrentLayer& layer, const float* dy, const float* dhidden, const int32_t* lengths,
                   float* cut);

}  // namespace telar::cpu
