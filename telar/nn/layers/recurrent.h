#pragma once

#include "telar/graph/ops/recurrent.h"
#include "telar/nn/model_builder.h"

namespace telar {

struct RecurrentOptions {
  int64_t hidden = 128;
  int64_t layers = 1;
  double dropout = 0;  ///< on the output of every layer but the last
  bool bias = true;
};

/// PyTorch's LSTM and GRU: one direction, batch first, starting from zero states. x: [N, T, I]; lengths: i32
/// [N] or kNoValue (all of T). Returns the last layer's y [N, T, hidden], hidden [N, hidden] and cell
/// [N, hidden] (LSTM). Parameters "NAME.weight_ih_l0" [G·hidden, I], "weight_hh_l0" [G·hidden, hidden],
/// "bias_ih_l0", "bias_hh_l0" [G·hidden], then "…_l1" and so on, where G = 4 (LSTM) or 3 (GRU); initially
/// uniform over ±1/√hidden.
RecurrentResult lstm(ModelBuilder& model, const std::string& name, ValueId x, const RecurrentOptions& options,
                     ValueId lengths = kNoValue);
RecurrentResult gru(ModelBuilder& model, const std::string& name, ValueId x, const RecurrentOptions& options,
                    ValueId lengths = kNoValue);

}  // namespace telar
