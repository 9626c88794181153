#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. Each function computes one step of a
// recurrent layer, except its products. Types are f32 and bf16 where f32 is not specified; others are an
// error (cudaErrorInvalidValue). Steps count from 0. Gates are in PyTorch's order. σ(x) = 1 / (1 + exp(−x)).
namespace telar::cuda {

/// N samples of T steps, H hidden units.
struct RecurrentExtents {
  int64_t samples = 0;
  int64_t steps = 0;
  int64_t hidden = 0;
};

/// The memory of the forward steps.
struct RecurrentForward {
  RecurrentExtents extents;
  const int32_t* lengths = nullptr;  ///< [N], clamped to 1 … T; null: all T
  const float* bias_ih = nullptr;    ///< [gates · H] f32, or null
  const float* bias_hh = nullptr;
  float* gates = nullptr;  ///< [N, T, 4H] f32: see the step functions
  /// [N, T, H]: h before each step. The initial one is there if `begun`; else step 0 writes 0. Each step
  /// writes the one of the next step.
  void* before = nullptr;
  void* y = nullptr;       ///< [N, T, H]: 0 from the sample's length on
  void* hidden = nullptr;  ///< [N, H] at the sample's length
  bool begun = false;      ///< there is an initial h
};

/// Replaces the gates x · W_ihᵀ + before · W_hhᵀ of i, f, g, o by σ, σ, tanh, σ of their sums with the
/// biases. c = f ⊙ c + i ⊙ g, h = o ⊙ tanh(c). initial: [N, H], c before step 0, or null: 0. cells: [N, T, H]
/// f32, of every step. cell: [N, H] at the sample's length.
cudaError_t lstm_step(const RecurrentForward& layer, const void* initial, float* cells, void* cell,
                      int64_t step, DType dtype, cudaStream_t stream);

/// Replaces the gates x · W_ihᵀ of r, z, n by r = σ, z = σ, n = tanh(n + r ⊙ q), with the biases. Writes q =
/// before · W_hnᵀ + b_hn after them. h = (1 − z) ⊙ n + z ⊙ h. recurrent: [N, 3H] f32, before · W_hhᵀ; null:
/// `before` is 0. state: [N, H] f32: h, which step 0 does not read.
cudaError_t gru_step(const RecurrentForward& layer, const float* recurrent, float* state, int64_t step,
                     DType dtype, cudaStream_t stream);

/// The memory of the backward steps, which run from the last step to the first.
struct RecurrentBackward {
  RecurrentExtents extents;
  const int32_t* lengths = nullptr;  ///< [N], or null
  const float* gates = nullptr;      ///< [N, T, 4H] f32, from the forward steps
  const void* dy = nullptr;          ///< [N, T, H], or null
  const void* dhidden = nullptr;     ///< [N, H], or null
  /// [N, H] f32: the gradient of the step's h from later steps; not read in step T − 1.
  float* dstate = nullptr;
  /// [N, T, gates · H]: gradients of the sums from which gates are computed; 0 from the sample's length on.
  void* dsums = nullptr;
};

/// initial: as in lstm_step. dcell_out: [N, H], gradient of `cell`, or null. dcell: [N, H] f32: like dstate,
/// for c; each step writes it for the previous one, step 0 for the initial c.
cudaError_t lstm_step_backward(const RecurrentBackward& layer, const void* initial, const float* cells,
                               const void* dcell_out, float* dcell, int64_t step, DType dtype,
                               cudaStream_t stream);

/// before: from the forward steps. dsums: gradients of x · W_ihᵀ + b_ih; drecurrent: [N, T, 3H], gradients of
/// before · W_hhᵀ + b_hh. dstate becomes z ⊙ dh; for the previous step, drecurrent · W_hh must be added to
/// it.
cudaError_t gru_step_backward(const RecurrentBackward& layer, const void* before, void* drecurrent,
                              int64_t step, DType dtype, cudaStream_t stream);

}  // namespace telar::cuda
