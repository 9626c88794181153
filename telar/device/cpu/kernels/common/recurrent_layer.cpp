#include "telar/device/cpu/kernels/common/recurrent_layer.h"

#include <algorithm>

namespace telar::cpu {

namespace {

/// Large enough that a sigmoid in f32 is exactly 0 or 1, but far from the largest bf16 or f32 number.
constexpr float kSaturating = 10000.0F;

/// The index in oneDNN's order of gate g in PyTorch's order: a GRU's first two gates are exchanged.
int64_t onednn_gate(const RecurrentLayer& layer, int64_t gate) {
  return layer.lstm || gate == 2 ? gate : 1 - gate;
}

/// Weight of the freezing feature: sets the input gate to 0 and the forget gate to 1; the others are
/// unchanged.
float freezing_weight(int64_t gate) {
  if (gate == 0) return -kSaturating;
  return gate == 1 ? kSaturating : 0.0F;
}

int64_t length_of(const RecurrentLayer& layer, int32_t length) {
  return std::clamp<int64_t>(length, 1, layer.steps);
}

}  // namespace

void pack_weights(const RecurrentLayer& layer, const float* from, int64_t columns, int64_t extra, float* to) {
  for (int64_t gate = 0; gate < layer.gates(); ++gate) {
    float* row = to + onednn_gate(layer, gate) * layer.hidden * (columns + extra);
    for (int64_t h = 0; h < layer.hidden; ++h) {
      row = std::copy_n(from + (gate * layer.hidden + h) * columns, columns, row);
      row = std::fill_n(row, extra, freezing_weight(gate));
    }
  }
}

void unpack_weights(const RecurrentLayer& layer, const float* from, int64_t columns, int64_t extra,
                    float* to) {
  for (int64_t gate = 0; gate < layer.gates(); ++gate) {
    const float* row = from + onednn_gate(layer, gate) * layer.hidden * (columns + extra);
    for (int64_t h = 0; h < layer.hidden; ++h) {
      std::copy_n(row + h * (columns + extra), columns, to + (gate * layer.hidden + h) * columns);
    }
  }
}

void join_biases(const RecurrentLayer& layer, const float* bias_ih, const float* bias_hh, float* joined) {
  const int64_t summed = layer.lstm ? 4 : 2;
  for (int64_t gate = 0; gate < summed; ++gate) {
    float* to = joined + onednn_gate(layer, gate) * layer.hidden;
    for (int64_t h = 0; h < layer.hidden; ++h) {
      to[h] = bias_ih[gate * layer.hidden + h] + bias_hh[gate * layer.hidden + h];
    }
  }
  if (layer.lstm) return;
  std::copy_n(bias_ih + 2 * layer.hidden, layer.hidden, joined + 2 * layer.hidden);
  std::copy_n(bias_hh + 2 * layer.hidden, layer.hidden, joined + 3 * layer.hidden);
}

void part_bias_gradients(const RecurrentLayer& layer, const float* joined, float* bias_ih, float* bias_hh) {
  for (int64_t gate = 0; gate < layer.gates(); ++gate) {
    const float* from = joined + onednn_gate(layer, gate) * layer.hidden;
    const bool apart = !layer.lstm && gate == 2;
    std::copy_n(from, layer.hidden, bias_ih + gate * layer.hidden);
    std::copy_n(apart ? from + layer.hidden : from, layer.hidden, bias_hh + gate * layer.hidden);
  }
}

void widen_inputs(const RecurrentLayer& layer, const float* x, const int32_t* lengths, float* widened) {
  for (int64_t n = 0; n < layer.batch; ++n) {
    for (int64_t t = 0; t < layer.steps; ++t, x += layer.inputs) {
      const bool beyond = t >= length_of(layer, lengths[n]);
      widened = beyond ? std::fill_n(widened, layer.inputs, 0.0F) : std::copy_n(x, layer.inputs, widened);
      *widened++ = beyond ? 1.0F : 0.0F;
    }
  }
}

void narrow_input_gradients(const RecurrentLayer& layer, const float* widened, float* dx) {
  for (int64_t i = 0; i < layer.batch * layer.steps; ++i, widened += layer.inputs + 1) {
    dx = std::copy_n(widened, layer.inputs, dx);
  }
}

void cut_outputs(const RecurrentLayer& layer, const float* y, const int32_t* lengths, float* cut,
                 float* hidden) {
  for (int64_t n = 0; n < layer.batch; ++n) {
    const int64_t counted = length_of(layer, lengths[n]) * layer.hidden;
    const int64_t whole = layer.steps * layer.hidden;
    std::copy_n(y + counted - layer.hidden, layer.hidden, hidden + n * layer.hidden);
    cut = std::copy_n(y, counted, cut);
    cut = std::fill_n(cut, whole - counted, 0.0F);
    y += whole;
  }
}

void cut_gradients(const RecurrentLayer& layer, const float* dy, const float* dhidden, const int32_t* lengths,
                   float* cut) {
  const int64_t whole = layer.steps * layer.hidden;
  for (int64_t n = 0; n < layer.batch; ++n, dy += whole, cut += whole, dhidden += layer.hidden) {
    const int64_t counted = length_of(layer, lengths[n]) * layer.hidden;
    std::copy_n(dy, counted, cut);
    std::fill_n(cut + counted, whole - counted, 0.0F);
    float* last = cut + counted - layer.hidden;
    for (int64_t h = 0; h < layer.hidden; ++h) last[h] += dhidden[h];
  }
}

}  // namespace telar::cpu
