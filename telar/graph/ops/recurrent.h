#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Parameters of one recurrent layer in PyTorch's form: G gates (LSTM 4: input, forget, cell, output; GRU 3:
/// reset, update, new), I inputs, H hidden units. Weights have x's dtype, biases are f32; both biases may be
/// absent.
struct RecurrentParameters {
  ValueId weight_ih = kNoValue;  ///< [G·H, I]
  ValueId weight_hh = kNoValue;  ///< [G·H, H]
  ValueId bias_ih = kNoValue;    ///< [G·H] f32
  ValueId bias_hh = kNoValue;    ///< [G·H] f32
};

/// States before the first step, [N, H] of x's dtype; those that are absent are zeros. cell: LSTM only.
struct RecurrentStates {
  ValueId hidden = kNoValue;
  ValueId cell = kNoValue;
};

/// y: [N, T, H], the hidden state of every step; hidden, cell: [N, H] after the last step (cell: LSTM only);
/// all of x's dtype. With lengths, y is zero beyond the sample's length, and hidden and cell are those at its
/// length, as in PyTorch for a packed sequence.
struct RecurrentResult {
  ValueId y = kNoValue;
  ValueId hidden = kNoValue;
  ValueId cell = kNoValue;
};

/// One layer, one direction. x: [N, T, I] f32 or bf16; lengths: i32 [N], each in 1 … T (others are clamped),
/// or kNoValue: all of T.
///   i, f, o = σ(W_ih·x + b_ih + W_hh·h + b_hh);  g = tanh(…);  c = f ⊙ c + i ⊙ g;  h = o ⊙ tanh(c)
RecurrentResult lstm(GraphBuilder& builder, ValueId x, const RecurrentParameters& parameters, ValueId lengths,
                     const RecurrentStates& initial = {});

///   r, z = σ(W_ih·x + b_ih + W_hh·h + b_hh);  n = tanh(W_in·x + b_in + r ⊙ (W_hn·h + b_hn));
///   h = (1 − z) ⊙ n + z ⊙ h
RecurrentResult gru(GraphBuilder& builder, ValueId x, const RecurrentParameters& parameters, ValueId lengths,
                    const RecurrentStates& initial = {});

}  // namespace telar
