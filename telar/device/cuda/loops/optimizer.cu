#include "telar/device/cuda/loops/optimizer.h"

#include <cmath>

#include "telar/device/cuda/loops/vectors.h"

namespace telar::cuda {

namespace {

constexpr int kOptimizerWidth = kWide<float>;

// A rule updates one number p, given its gradient sum and its state.

struct Sgd {
  SgdRule k;
  TELAR_GPU void operator()(float& p, float g, float&, float&) const {
    p -= k.learning_rate * (g * k.scale + k.weight_decay * p);
  }
};

struct SgdWithMomentum {
  SgdRule k;
  TELAR_GPU void operator()(float& p, float g, float& m, float&) const {
    const float gradient = g * k.scale + k.weight_decay * p;
    m = (k.first ? 0.0F : k.momentum) * m + gradient;
    p -= k.learning_rate * (k.nesterov ? gradient + k.momentum * m : m);
  }
};

struct Adam {
  AdamRule k;
  float step = k.learning_rate / k.correction1;
  float inverse_root = 1.0F / k.correction2_root;
  float coupled_decay = k.decoupled ? 0.0F : k.weight_decay;
  float shrink = k.decoupled ? 1.0F - k.learning_rate * k.weight_decay : 1.0F;
  TELAR_GPU void operator()(float& p, float g, float& m, float& v) const {
    const float gradient = g * k.scale + coupled_decay * p;
    m = k.beta1 * m + (1.0F - k.beta1) * gradient;
    v = k.beta2 * v + (1.0F - k.beta2) * gradient * gradient;
    p = shrink * p - step * m / (sqrtf(v) * inverse_root + k.epsilon);
  }
};

struct Rmsprop {
  RmspropRule k;
  TELAR_GPU void operator()(float& p, float g, float& s, float&) const {
    const float gradient = g * k.scale + k.weight_decay * p;
    s = k.alpha * s + (1.0F - k.alpha) * gradient * gradient;
    p -= k.learning_rate * gradient / (sqrtf(s + k.epsilon_in_root) + k.epsilon);
  }
};

struct RmspropWithMomentum {
  RmspropRule k;
  TELAR_GPU void operator()(float& p, float g, float& s, float& b) const {
    const float gradient = g * k.scale + k.weight_decay * p;
    s = k.alpha * s + (1.0F - k.alpha) * gradient * gradient;
    b = k.momentum * b + k.rate_in_momentum * gradient / (sqrtf(s + k.epsilon_in_root) + k.epsilon);
    p -= k.learning_rate * b;
  }
};

struct Adagrad {
  AdagradRule k;
  TELAR_GPU void operator()(float& p, float g, float& s, float&) const {
    const float gradient = g * k.scale + k.weight_decay * p;
    s += gradient * gradient;
    p -= k.learning_rate * gradient / (sqrtf(s) + k.epsilon);
  }
};

struct RunningAverage {
  RunningAverageRule k;
  TELAR_GPU void operator()(float& p, float g, float&, float&) const {
    p = (1.0F - k.momentum) * p + k.momentum * (g * k.scale);
  }
};

TELAR_GPU inline bool is_finite(float value) { return fabsf(value) < INFINITY; }

template <int kStates, typename Rule>
cudaError_t update_with(Rule rule, const UpdateMemory& memory, cudaStream_t stream) {
  return for_each(memory.count / kOptimizerWidth, stream, [=] TELAR_GPU(int64_t i) {
    if (memory.loss != nullptr) {
      const float non_finite = *memory.non_finite;
      if (non_finite != 0 && non_finite != memory.mark) return;
      if (!is_finite(*memory.loss)) {
        *memory.non_finite = memory.mark;  // all threads that write here write the same value
        return;
      }
    }
    const int64_t at = i * kOptimizerWidth;
    const Values<kOptimizerWidth> g = load<kOptimizerWidth>(memory.gradients + at);
    Values<kOptimizerWidth> p = load<kOptimizerWidth>(memory.parameters + at);
    Values<kOptimizerWidth> states[2] = {};
    for (int s = 0; s < kStates; ++s) states[s] = load<kOptimizerWidth>(memory.states[s] + at);
    bool finite = true;
    for (int lane = 0; lane < kOptimizerWidth; ++lane) {
      finite = finite && is_finite(g.of[lane]);
      rule(p.of[lane], g.of[lane], states[0].of[lane], states[1].of[lane]);
    }
    store(memory.parameters + at, p);
    for (int s = 0; s < kStates; ++s) store(memory.states[s] + at, states[s]);
    if (!finite) *memory.non_finite = memory.mark;
  });
}

}  // namespace

cudaError_t update(const SgdRule& rule, const UpdateMemory& memory, cudaStream_t stream) {
  if (memory.states[0] == nullptr) return update_with<0>(Sgd{rule}, memory, stream);
  return update_with<1>(SgdWithMomentum{rule}, memory, stream);
}

cudaError_t update(const AdamRule& rule, const UpdateMemory& memory, cudaStream_t stream) {
  return update_with<2>(Adam{rule}, memory, stream);
}

cudaError_t update(const RmspropRule& rule, const UpdateMemory& memory, cudaStream_t stream) {
  if (memory.states[1] == nullptr) return update_with<1>(Rmsprop{rule}, memory, stream);
  return update_with<2>(RmspropWithMomentum{rule}, memory, stream);
}

cudaError_t update(const AdagradRule& rule, const UpdateMemory& memory, cudaStream_t stream) {
  return update_with<1>(Adagrad{rule}, memory, stream);
}

cudaError_t update(const RunningAverageRule& rule, const UpdateMemory& memory, cudaStream_t stream) {
  return update_with<0>(RunningAverage{rule}, memory, stream);
}

cudaError_t sum_squares(const float* x, int64_t count, double* pieces, double* sum, cudaStream_t stream) {
  const int64_t vectors = count / kOptimizerWidth;
  const int64_t length = (vectors + kSquarePieces - 1) / kSquarePieces;
  const cudaError_t status = reduce(
      kSquarePieces, length, stream, 0.0,
      [=] TELAR_GPU(int64_t piece, int64_t i) {
        const int64_t at = piece * length + i;
        if (at >= vectors) return 0.0;
        const Values<kOptimizerWidth> values = load<kOptimizerWidth>(x + at * kOptimizerWidth);
        double squares = 0;
        for (const float value : values.of) squares += static_cast<double>(value) * value;
        return squares;
      },
      SumInDouble(), [=] TELAR_GPU(int64_t piece, double value) { pieces[piece] = value; });
  if (status != cudaSuccess) return status;
  return reduce(
      1, kSquarePieces, stream, 0.0, [=] TELAR_GPU(int64_t, int64_t i) { return pieces[i]; }, SumInDouble(),
      [=] TELAR_GPU(int64_t, double value) { *sum = value; });
}

}  // namespace telar::cuda
