#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"

// Loops of ours (see launch.h): each function tells a stream to do one step of a recurrent layer, but for its
// products. Types are f32 and bf16, of what is not said to be f32; another is an error
// (cudaErrorInvalidValue). Steps are counted from 0. Gates stand in PyTorch's order; σ(x) is 1 / (1 +
// exp(−x)).
namespace telar::cuda {

/// N samples of T steps, H hidden units.
struct RecurrentExtents {
  int64_t samples = 0;
  int64_t steps = 0;
  int64_t hidden = 0;
};

/// What forward steps read and write.
struct RecurrentForward {
  RecurrentExtents extents;
  const int32_t* lengths = nullptr;  ///< [N], taken as between 1 and T; null: all T
  const float* bias_ih = nullptr;    ///< [gates · H] f32, or null
  const float* bias_hh = nullptr;
  float* gates = nullptr;  ///< [N, T, 4H] f32: see the steps
  void* before =
      nullptr;  ///< [N, T, H]: h before each step. Step 0 writes its own, 0, and each step the next one's
  void* y = nullptr;       ///< [N, T, H]: 0 from the sample's length on
  void* hidden = nullptr;  ///< [N, H] at the sample's length
};

/// Gates: x · W_ihᵀ + before · W_hhᵀ of i, f, g, o are replaced by what they open: σ, σ, tanh, σ of them with
/// the biases. c = f ⊙ c + i ⊙ g, h = o ⊙ tanh(c). cells: [N, T, H] f32, of every step. cell: [N, H] at the
/// sample's length.
cudaError_t lstm_step(const RecurrentForward& layer, float* cells, void* cell, int64_t step, DType dtype,
                      cudaStream_t stream);

/// Gates: x · W_ihᵀ of r, z, n are replaced by r = σ, z = σ, n = tanh(n + r ⊙ q), with the biases, and what
/// follows them by q, which is before · W_hnᵀ + b_hn. h = (1 − z) ⊙ n + z ⊙ h. recurrent: [N, 3H] f32, before
/// · W_hhᵀ; null in step 0. state: [N, H] f32: h.
cudaError_t gru_step(const RecurrentForward& layer, const float* recurrent, float* state, int64_t step,
                     DType dtype, cudaStream_t stream);

/// What backward steps, the last one first, read and write.
struct RecurrentBackward {
  RecurrentExtents extents;
  const int32_t* lengths = nullptr;  ///< [N], or null
  const float* gates = nullptr;      ///< [N, T, 4H] f32, as forward left them
  const void* dy = nullptr;          ///< [N, T, H], or null
  const void* dhidden = nullptr;     ///< [N, H], or null
  float* dstate =
      nullptr;  ///< [N, H] f32: the gradient of the step's h that later steps gave; not read in step T − 1
  void* dsums =
      nullptr;  ///< [N, T, gates · H]: of what the gates were made of; 0 from the sample's length on
};

/// dcell_out: [N, H], of `cell`, or null. dcell: [N, H] f32: what dstate is for c; each step leaves it for
/// the one before.
cudaError_t lstm_step_backward(const RecurrentBackward& layer, const float* cells, const void* dcell_out,
                               float* dcell, int64_t step, DType dtype, cudaStream_t stream);

/// before: as forward left it. dsums: of x · W_ihᵀ + b_ih; drecurrent: [N, T, 3H], of before · W_hhᵀ + b_hh.
/// dstate becomes z ⊙ dh, to which drecurrent · W_hh is still to be added for the step before.
cudaError_t gru_step_backward(const RecurrentBackward& layer, const void* before, void* drecurrent,
                              int64_t step, DType dtype, cudaStream_t stream);

}  // namespace telar::cuda
