#include "telar/device/cuda/loops/recurrent.h"

#include <cmath>

#include "telar/device/cuda/loops/launch.h"

namespace telar::cuda {

namespace {

TELAR_GPU inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }
/// Derivatives of σ and tanh, from their results.
TELAR_GPU inline float sigmoid_slope(float y) { return y * (1 - y); }
TELAR_GPU inline float tanh_slope(float y) { return 1 - y * y; }

template <typename T>
TELAR_GPU float value_or_0(const void* values, int64_t at) {
  return values == nullptr ? 0.0F : to_float(static_cast<const T*>(values)[at]);
}

template <typename T>
TELAR_GPU void put(void* values, int64_t at, float value) {
  store(static_cast<T*>(values)[at], value);
}

/// Unit i of the N · H units that a step computes.
struct Unit {
  int64_t sample;
  int64_t h;
  int64_t row;  ///< index in [N · T] of the sample's step
  bool beyond;  ///< the step is after the sample's length
  bool last;    ///< the step is the last one of the sample
};

TELAR_GPU inline Unit unit_at(int64_t i, const RecurrentExtents& extents, const int32_t* lengths,
                              int64_t step) {
  const int64_t sample = i / extents.hidden;
  int64_t length = extents.steps;
  if (lengths != nullptr && lengths[sample] < length) length = lengths[sample] < 1 ? 1 : lengths[sample];
  return {sample, i - sample * extents.hidden, sample * extents.steps + step, step >= length,
          step == length - 1};
}

TELAR_GPU inline float bias_of(const float* bias, int64_t at) { return bias == nullptr ? 0.0F : bias[at]; }

/// Stores the step's h wherever it is read.
template <typename T>
TELAR_GPU void put_state(const RecurrentForward& layer, const Unit& unit, int64_t i, int64_t step, float h) {
  const int64_t at = unit.row * layer.extents.hidden + unit.h;
  put<T>(layer.y, at, unit.beyond ? 0.0F : h);
  if (unit.last) put<T>(layer.hidden, i, h);
  if (step == 0 && !layer.begun) put<T>(layer.before, at, 0);
  if (step + 1 < layer.extents.steps) put<T>(layer.before, at + layer.extents.hidden, h);
}

template <typename T>
struct LstmStep {
  RecurrentForward layer;
  const void* initial;
  float* cells;
  void* cell;
  int64_t step;

  TELAR_GPU void operator()(int64_t i) const {
    const int64_t hidden = layer.extents.hidden;
    const Unit unit = unit_at(i, layer.extents, layer.lengths, step);
    float* gates = layer.gates + unit.row * 4 * hidden + unit.h;
    const float in = sigmoid(sum(gates, 0, unit.h));
    const float forget = sigmoid(sum(gates, hidden, unit.h));
    const float fresh = tanhf(sum(gates, 2 * hidden, unit.h));
    const float out = sigmoid(sum(gates, 3 * hidden, unit.h));
    float* c = cells + unit.row * hidden + unit.h;
    const float old = step == 0 ? value_or_0<T>(initial, i) : *(c - hidden);
    const float now = forget * old + in * fresh;
    gates[0] = in;
    gates[hidden] = forget;
    gates[2 * hidden] = fresh;
    gates[3 * hidden] = out;
    *c = now;
    if (unit.last) put<T>(cell, i, now);
    put_state<T>(layer, unit, i, step, out * tanhf(now));
  }
  TELAR_GPU float sum(const float* gates, int64_t gate, int64_t h) const {
    return gates[gate] + bias_of(layer.bias_ih, gate + h) + bias_of(layer.bias_hh, gate + h);
  }
};

template <typename T>
struct GruStep {
  RecurrentForward layer;
  const float* recurrent;
  float* state;
  int64_t step;

  TELAR_GPU void operator()(int64_t i) const {
    const int64_t hidden = layer.extents.hidden;
    const Unit unit = unit_at(i, layer.extents, layer.lengths, step);
    float* gates = layer.gates + unit.row * 4 * hidden + unit.h;
    const float reset = sigmoid(given(gates, 0, unit) + remembered(0, unit));
    const float update = sigmoid(given(gates, hidden, unit) + remembered(hidden, unit));
    const float q = remembered(2 * hidden, unit);
    const float fresh = tanhf(given(gates, 2 * hidden, unit) + reset * q);
    const float old = step > 0 ? state[i] : layer.begun ? before(unit) : 0.0F;
    const float now = (1 - update) * fresh + update * old;
    gates[0] = reset;
    gates[hidden] = update;
    gates[2 * hidden] = fresh;
    gates[3 * hidden] = q;
    state[i] = now;
    put_state<T>(layer, unit, i, step, now);
  }
  TELAR_GPU float before(const Unit& unit) const {
    return value_or_0<T>(layer.before, unit.row * layer.extents.hidden + unit.h);
  }
  TELAR_GPU float given(const float* gates, int64_t gate, const Unit& unit) const {
    return gates[gate] + bias_of(layer.bias_ih, gate + unit.h);
  }
  TELAR_GPU float remembered(int64_t gate, const Unit& unit) const {
    const int64_t at = unit.sample * 3 * layer.extents.hidden + gate + unit.h;
    return (recurrent == nullptr ? 0.0F : recurrent[at]) + bias_of(layer.bias_hh, gate + unit.h);
  }
};

/// The gradient of the step's h.
template <typename T>
TELAR_GPU float gradient_of_state(const RecurrentBackward& layer, const Unit& unit, int64_t i, int64_t step) {
  float sum = value_or_0<T>(layer.dy, unit.row * layer.extents.hidden + unit.h);
  if (unit.last) sum += value_or_0<T>(layer.dhidden, i);
  if (step + 1 < layer.extents.steps) sum += layer.dstate[i];
  return sum;
}

template <typename T>
struct LstmStepBackward {
  RecurrentBackward layer;
  const void* initial;
  const float* cells;
  const void* dcell_out;
  float* dcell;
  int64_t step;

  TELAR_GPU void operator()(int64_t i) const {
    const int64_t hidden = layer.extents.hidden;
    const Unit unit = unit_at(i, layer.extents, layer.lengths, step);
    const int64_t at = unit.row * 4 * hidden + unit.h;
    if (unit.beyond) {
      for (int64_t gate = 0; gate < 4; ++gate) put<T>(layer.dsums, at + gate * hidden, 0);
      dcell[i] = 0;
      return;
    }
    const float* gates = layer.gates + at;
    const float in = gates[0];
    const float forget = gates[hidden];
    const float fresh = gates[2 * hidden];
    const float out = gates[3 * hidden];
    const float* c = cells + unit.row * hidden + unit.h;
    const float squashed = tanhf(*c);
    const float dh = gradient_of_state<T>(layer, unit, i, step);
    float dc = dh * out * tanh_slope(squashed);
    if (step + 1 < layer.extents.steps) dc += dcell[i];
    if (unit.last) dc += value_or_0<T>(dcell_out, i);
    const float old = step == 0 ? value_or_0<T>(initial, i) : *(c - hidden);
    put<T>(layer.dsums, at, dc * fresh * sigmoid_slope(in));
    put<T>(layer.dsums, at + hidden, dc * old * sigmoid_slope(forget));
    put<T>(layer.dsums, at + 2 * hidden, dc * in * tanh_slope(fresh));
    put<T>(layer.dsums, at + 3 * hidden, dh * squashed * sigmoid_slope(out));
    dcell[i] = dc * forget;
  }
};

template <typename T>
struct GruStepBackward {
  RecurrentBackward layer;
  const void* before;
  void* drecurrent;
  int64_t step;

  TELAR_GPU void operator()(int64_t i) const {
    const int64_t hidden = layer.extents.hidden;
    const Unit unit = unit_at(i, layer.extents, layer.lengths, step);
    if (unit.beyond) {
      put_gates(unit, 0, 0, 0, 0);
      layer.dstate[i] = 0;
      return;
    }
    const float* gates = layer.gates + unit.row * 4 * hidden + unit.h;
    const float reset = gates[0];
    const float update = gates[hidden];
    const float fresh = gates[2 * hidden];
    const float q = gates[3 * hidden];
    const float old = value_or_0<T>(before, unit.row * hidden + unit.h);
    const float dh = gradient_of_state<T>(layer, unit, i, step);
    const float dfresh = dh * (1 - update) * tanh_slope(fresh);
    put_gates(unit, dfresh * q * sigmoid_slope(reset), dh * (old - fresh) * sigmoid_slope(update), dfresh,
              dfresh * reset);
    layer.dstate[i] = dh * update;
  }
  TELAR_GPU void put_gates(const Unit& unit, float reset, float update, float fresh, float q) const {
    const int64_t hidden = layer.extents.hidden;
    const int64_t at = unit.row * 3 * hidden + unit.h;
    put<T>(layer.dsums, at, reset);
    put<T>(layer.dsums, at + hidden, update);
    put<T>(layer.dsums, at + 2 * hidden, fresh);
    put<T>(drecurrent, at, reset);
    put<T>(drecurrent, at + hidden, update);
    put<T>(drecurrent, at + 2 * hidden, q);
  }
};

int64_t units(const RecurrentExtents& extents) { return extents.samples * extents.hidden; }

}  // namespace

cudaError_t lstm_step(const RecurrentForward& layer, const void* initial, float* cells, void* cell,
                      int64_t step, DType dtype, cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return for_each(units(layer.extents), stream,
                    LstmStep<decltype(type)>{layer, initial, cells, cell, step});
  });
}

cudaError_t gru_step(const RecurrentForward& layer, const float* recurrent, float* state, int64_t step,
                     DType dtype, cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return for_each(units(layer.extents), stream, GruStep<decltype(type)>{layer, recurrent, state, step});
  });
}

cudaError_t lstm_step_backward(const RecurrentBackward& layer, const void* initial, const float* cells,
                               const void* dcell_out, float* dcell, int64_t step, DType dtype,
                               cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return for_each(units(layer.extents), stream,
                    LstmStepBackward<decltype(type)>{layer, initial, cells, dcell_out, dcell, step});
  });
}

cudaError_t gru_step_backward(const RecurrentBackward& layer, const void* before, void* drecurrent,
                              int64_t step, DType dtype, cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return for_each(units(layer.extents), stream,
                    GruStepBackward<decltype(type)>{layer, before, drecurrent, step});
  });
}

}  // namespace telar::cuda
