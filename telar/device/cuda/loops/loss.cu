#include "telar/device/cuda/loops/loss.h"

#include <cmath>

#include "telar/device/cuda/loops/exponentials.h"
#include "telar/device/cuda/loops/reduce_pieces.h"
#include "telar/device/cuda/loops/rows.h"
#include "telar/device/cuda/loops/walk.h"

namespace telar::cuda {

namespace {

/// Results for a row of logits.
struct Row {
  Exponentials exponentials;
  float sum;
};

struct CombineRows {
  TELAR_GPU Row operator()(const Row& a, const Row& b) const {
    return {CombineExponentials()(a.exponentials, b.exponentials), a.sum + b.sum};
  }
};

/// Writes a row's log-probabilities. The thread that processes the label's class also writes the loss.
struct FinishLossRow {
  Classes extents;
  float smoothing;
  const float* logits;
  const int32_t* labels;
  float* log_probabilities;
  float* losses;

  TELAR_GPU void operator()(int64_t row, int64_t i, const Row& whole) const {
    const float shift = whole.exponentials.largest + logf(whole.exponentials.sum);
    const int64_t at = row * extents.classes + i;
    const float own = logits[at] - shift;
    log_probabilities[at] = own;
    const int64_t label = labels[row];
    if (i == label) {
      const float mean = whole.sum / static_cast<float>(extents.classes) - shift;
      losses[row] = -(1 - smoothing) * own - (smoothing > 0 ? smoothing * mean : 0.0F);
    } else if (i == 0 && (label < 0 || label >= extents.classes)) {
      losses[row] = NAN;
    }
  }
};

/// Rounds to f32 only here: a sum over many rows loses no digits.
struct StoreLoss {
  LossSum y;
  TELAR_GPU void operator()(int64_t, double sum) const {
    *y.to = (y.adding ? *y.to : 0.0F) + static_cast<float>(sum);
  }
};

TELAR_GPU inline float value_of(const LossGradient& gradient) {
  return gradient.found == nullptr ? gradient.known : *gradient.found;
}

/// The gradient of the loss of a row: the same for all, or one of each.
struct GradientOfAll {
  LossGradient gradient;
  TELAR_GPU float operator()(int64_t) const { return value_of(gradient); }
};

struct GradientOfRow {
  const float* each;
  TELAR_GPU float operator()(int64_t row) const { return each[row]; }
};

/// A row of logits, from which FinishLossRow computes.
struct LogitOfRow {
  int64_t classes;
  const float* logits;
  TELAR_GPU Row operator()(int64_t row, int64_t i) const {
    const float value = logits[row * classes + i];
    return Row{{value, 1}, value};
  }
};

template <typename Index, typename Gradient>
cudaError_t backward_counted(const Classes& extents, float smoothing, const float* log_probabilities,
                             const int32_t* labels, Gradient dloss, float* dlogits, cudaStream_t stream) {
  const auto classes = static_cast<Index>(extents.classes);
  const float even = smoothing / static_cast<float>(extents.classes);
  return for_each(extents.rows * extents.classes, stream, [=] TELAR_GPU(int64_t i) {
    const Index row = static_cast<Index>(i) / classes;
    const auto label = static_cast<int64_t>(labels[row]);
    const bool own = i == static_cast<int64_t>(row * classes) + label;
    const bool known = label >= 0 && label < static_cast<int64_t>(classes);
    const float wanted = known ? even + (own ? 1 - smoothing : 0.0F) : NAN;
    dlogits[i] = dloss(static_cast<int64_t>(row)) * (expf(log_probabilities[i]) - wanted);
  });
}

template <typename Gradient>
cudaError_t backward(const Classes& extents, float smoothing, const float* log_probabilities,
                     const int32_t* labels, Gradient dloss, float* dlogits, cudaStream_t stream) {
  return with_index(extents.rows * extents.classes, [&](auto index) {
    return backward_counted<decltype(index)>(extents, smoothing, log_probabilities, labels, dloss, dlogits,
                                             stream);
  });
}

/// (prediction − target)².
struct SquaredErrors {
  const float* prediction;
  const float* target;
  TELAR_GPU int64_t place(int64_t result) const { return result; }
  TELAR_GPU float operator()(int64_t, int64_t i) const {
    const float apart = prediction[i] - target[i];
    return apart * apart;
  }
};

struct StoreMean {
  LossSum y;
  float divisor;
  TELAR_GPU void operator()(int64_t, float sum) const { *y.to = (y.adding ? *y.to : 0.0F) + sum / divisor; }
};

}  // namespace

cudaError_t cross_entropy(const Classes& extents, float smoothing, const float* logits, const int32_t* labels,
                          LossSum loss, float* log_probabilities, float* losses, cudaStream_t stream) {
  const int64_t classes = extents.classes;
  return map_rows_and_sum(
      extents.rows, classes, stream, Row{kNoExponentials, 0}, LogitOfRow{classes, logits}, CombineRows(),
      FinishLossRow{extents, smoothing, logits, labels, log_probabilities, losses}, losses, StoreLoss{loss});
}

cudaError_t cross_entropy_of_rows(const Classes& extents, float smoothing, const float* logits,
                                  const int32_t* labels, float* log_probabilities, float* losses,
                                  cudaStream_t stream) {
  return map_rows(extents.rows, extents.classes, false, stream, Row{kNoExponentials, 0},
                  LogitOfRow{extents.classes, logits}, CombineRows(),
                  FinishLossRow{extents, smoothing, logits, labels, log_probabilities, losses});
}

cudaError_t cross_entropy_backward(const Classes& extents, float smoothing, const float* log_probabilities,
                                   const int32_t* labels, LossGradient dloss, float* dlogits,
                                   cudaStream_t stream) {
  return backward(extents, smoothing, log_probabilities, labels, GradientOfAll{dloss}, dlogits, stream);
}

cudaError_t cross_entropy_of_rows_backward(const Classes& extents, float smoothing,
                                           const float* log_probabilities, const int32_t* labels,
                                           const float* dlosses, float* dlogits, cudaStream_t stream) {
  return backward(extents, smoothing, log_probabilities, labels, GradientOfRow{dlosses}, dlogits, stream);
}

cudaError_t mean_squared_error(const Pieces& pieces, int64_t features, const float* prediction,
                               const float* target, LossSum loss, float* between, cudaStream_t stream) {
  return reduce_pieces(pieces, between, stream, 0.0F, SquaredErrors{prediction, target}, Sum(),
                       StoreMean{loss, static_cast<float>(features)});
}

cudaError_t mean_squared_error_backward(int64_t count, int64_t features, const float* prediction,
                                        const float* target, LossGradient dloss, float* dprediction,
                                        cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) {
    dprediction[i] = 2 * value_of(dloss) / static_cast<float>(features) * (prediction[i] - target[i]);
  });
}

cudaError_t top_k_correct(const Classes& extents, int64_t k, const float* logits, const int32_t* labels,
                          LossSum correct, float* hits, cudaStream_t stream) {
  const int64_t classes = extents.classes;
  return map_rows_and_sum(
      extents.rows, classes, stream, 0.0F,
      [=] TELAR_GPU(int64_t row, int64_t i) {
        const int64_t label = labels[row];
        if (label < 0 || label >= classes) return static_cast<float>(classes);
        const float own = logits[row * classes + label];
        const float value = logits[row * classes + i];
        return value < own || (value == own && i >= label) ? 0.0F : 1.0F;
      },
      Sum(),
      [=] TELAR_GPU(int64_t row, int64_t i, float better) {
        if (i == 0) hits[row] = better < static_cast<float>(k) ? 1.0F : 0.0F;
      },
      hits, StoreLoss{correct});
}

}  // namespace telar::cuda
