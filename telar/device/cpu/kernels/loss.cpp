#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "telar/core/error.h"
#include "telar/core/simd.h"
#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/kernels/common/exponential.h"
#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

constexpr int64_t kExponentialsAThread = 512;  // elements for each thread; each needs an exponential

constexpr int64_t kLanes = 16;  // maxima and sums of a row, so that there are vector instructions for them

[[gnu::always_inline]] inline float largest_of(const float* row, int64_t count) {
  if (count < kLanes) return *std::max_element(row, row + count);
  std::array<float, kLanes> largest;
  largest.fill(row[0]);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      largest[lane] = row[i + lane] > largest[lane] ? row[i + lane] : largest[lane];
  for (int64_t lane = 0; i < count; ++i, ++lane) largest[lane] = std::max(largest[lane], row[i]);
  return *std::max_element(largest.begin(), largest.end());
}

[[gnu::always_inline]] inline float sum_of_exponentials(const float* row, int64_t count, float largest) {
  if (count < kLanes)
    return std::accumulate(row, row + count, 0.0F,
                           [=](float sum, float x) { return sum + exponential(x - largest); });
  std::array<float, kLanes> sums = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += exponential(row[i + lane] - largest);
  for (int64_t lane = 0; i < count; ++i, ++lane) sums[lane] += exponential(row[i] - largest);
  return std::accumulate(sums.begin(), sums.end(), 0.0F);
}

/// Computes log-probabilities from rows of logits, shifted by the row's maximum.
TELAR_FOR_EACH_CPU
void log_softmax_rows(const float* logits, float* log_probabilities, int64_t rows, int64_t classes) {
  for (int64_t row = 0; row < rows; ++row, logits += classes, log_probabilities += classes) {
    const float largest = largest_of(logits, classes);
    const float shift = largest + std::log(sum_of_exponentials(logits, classes, largest));
    for (int64_t c = 0; c < classes; ++c) log_probabilities[c] = logits[c] - shift;
  }
}

/// scale · (probability − spread)
TELAR_FOR_EACH_CPU
void probabilities_minus(const float* log_probabilities, int64_t classes, float spread, float scale,
                         float* y) {
  for (int64_t c = 0; c < classes; ++c) y[c] = scale * (exponential(log_probabilities[c]) - spread);
}

/// −(1 − smoothing) · (log-probability of the label) − smoothing · (mean log-probability).
double cross_entropy_of(const float* log_probabilities, int64_t classes, int32_t label, float smoothing) {
  const double own = -(1.0F - smoothing) * log_probabilities[label];
  if (smoothing == 0) return own;
  double all = 0;
  for (int64_t c = 0; c < classes; ++c) all += log_probabilities[c];
  return own - smoothing * all / static_cast<double>(classes);
}

/// Labels of the batch are checked before a step; a graph may also compute some.
void check_labels(const int32_t* labels, int64_t rows, int64_t classes, const std::string& scope) {
  for (int64_t r = 0; r < rows; ++r) {
    if (labels[r] >= 0 && labels[r] < classes) continue;
    throw user_error("layer '{}': label {} of row {}; there are {} classes, so labels are 0 to {}", scope,
                     labels[r], r, classes, classes - 1);
  }
}

/// Of all rows together, or of each.
void lower_cross_entropy(Lowering& lowering, const Node& node) {
  const int64_t rows = lowering.shape(node.inputs[0])[0];
  const int64_t classes = lowering.shape(node.inputs[0])[1];
  const bool of_rows = node.op->name() == "cross_entropy_of_rows";
  const auto smoothing = static_cast<float>(node.attributes.real("label_smoothing"));
  const std::vector<RegionId> reads{lowering.plain_region(node.inputs[0]),
                                    lowering.plain_region(node.inputs[1])};
  const std::vector<RegionId> writes{lowering.define_plain(node.outputs[0]),
                                     lowering.define_plain(node.outputs[1])};
  lowering.function(reads, writes, [=, scope = node.scope](const Pointers& p) {
    const auto* logits = p.get<const float>(0);
    const auto* labels = p.get<const int32_t>(1);
    check_labels(labels, rows, classes, scope);
    auto* log_probabilities = p.get<float>(3);
    parallel_for(rows, std::max<int64_t>(1, kExponentialsAThread / classes), [=](int64_t begin, int64_t end) {
      log_softmax_rows(logits + begin * classes, log_probabilities + begin * classes, end - begin, classes);
    });
    auto* losses = p.get<float>(2);
    double sum = 0;  // in row order: the same for any team
    for (int64_t r = 0; r < rows; ++r) {
      const double loss = cross_entropy_of(log_probabilities + r * classes, classes, labels[r], smoothing);
      if (of_rows) losses[r] = static_cast<float>(loss);
      sum += loss;
    }
    if (!of_rows) *losses = static_cast<float>(sum);
  });
}

void lower_cross_entropy_backward(Lowering& lowering, const Node& node) {
  const int64_t rows = lowering.shape(node.inputs[0])[0];
  const int64_t classes = lowering.shape(node.inputs[0])[1];
  const int64_t step = node.op->name() == "cross_entropy_of_rows_backward" ? 1 : 0;
  const auto smoothing = static_cast<float>(node.attributes.real("label_smoothing"));
  const std::vector<RegionId> reads{lowering.plain_region(node.inputs[0]),
                                    lowering.plain_region(node.inputs[1]),
                                    lowering.plain_region(node.inputs[2])};
  lowering.function(reads, {lowering.define_plain(node.outputs[0])}, [=](const Pointers& p) {
    const auto* log_probabilities = p.get<const float>(0);
    const auto* labels = p.get<const int32_t>(1);
    const auto* dloss = p.get<const float>(2);
    auto* gradient = p.get<float>(3);
    const float spread = smoothing / static_cast<float>(classes);
    parallel_for(rows, std::max<int64_t>(1, kExponentialsAThread / classes), [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float scale = dloss[r * step];
        probabilities_minus(log_probabilities + r * classes, classes, spread, scale, gradient + r * classes);
        gradient[r * classes + labels[r]] -= scale * (1.0F - smoothing);
      }
    });
  });
}

void lower_mean_squared_error(Lowering& lowering, const Node& node) {
  const Shape& shape = lowering.shape(node.inputs[0]);
  const int64_t count = shape.elements();
  const int64_t features = shape.elements_per_item();
  lowering.function({lowering.plain_region(node.inputs[0]), lowering.plain_region(node.inputs[1])},
                    {lowering.define_plain(node.outputs[0])}, [=](const Pointers& p) {
                      double sum = 0;
                      for (int64_t i = 0; i < count; ++i) {
                        const double difference = p.get<const float>(0)[i] - p.get<const float>(1)[i];
                        sum += difference * difference;
                      }
                      *p.get<float>(2) = static_cast<float>(sum / static_cast<double>(features));
                    });
}

void lower_mean_squared_error_backward(Lowering& lowering, const Node& node) {
  const Shape& shape = lowering.shape(node.inputs[0]);
  const int64_t count = shape.elements();
  const int64_t features = shape.elements_per_item();
  lowering.function({lowering.plain_region(node.inputs[0]), lowering.plain_region(node.inputs[1]),
                     lowering.plain_region(node.inputs[2])},
                    {lowering.define_plain(node.outputs[0])}, [=](const Pointers& p) {
                      const float factor = 2.0F * *p.get<const float>(2) / static_cast<float>(features);
                      for (int64_t i = 0; i < count; ++i) {
                        p.get<float>(3)[i] = factor * (p.get<const float>(0)[i] - p.get<const float>(1)[i]);
                      }
                    });
}

void lower_top_k_correct(Lowering& lowering, const Node& node) {
  const int64_t rows = lowering.shape(node.inputs[0])[0];
  const int64_t classes = lowering.shape(node.inputs[0])[1];
  const int64_t k = node.attributes.integer("k");
  lowering.function({lowering.plain_region(node.inputs[0]), lowering.plain_region(node.inputs[1])},
                    {lowering.define_plain(node.outputs[0])}, [=, scope = node.scope](const Pointers& p) {
                      const auto* labels = p.get<const int32_t>(1);
                      check_labels(labels, rows, classes, scope);
                      int64_t correct = 0;
                      for (int64_t r = 0; r < rows; ++r) {
                        const float* row = p.get<const float>(0) + r * classes;
                        const float own = row[labels[r]];
                        int64_t better = 0;  // a NaN is better than all numbers, and never right
                        for (int64_t c = 0; c < classes; ++c) {
                          better += row[c] < own || (row[c] == own && c >= labels[r]) ? 0 : 1;
                        }
                        correct += better < k ? 1 : 0;
                      }
                      *p.get<float>(2) = static_cast<float>(correct);
                    });
}

}  // namespace

void register_loss(Kernels& kernels) {
  kernels.add("cross_entropy", lower_cross_entropy);
  kernels.add("cross_entropy_backward", lower_cross_entropy_backward);
  kernels.add("cross_entropy_of_rows", lower_cross_entropy);
  kernels.add("cross_entropy_of_rows_backward", lower_cross_entropy_backward);
  kernels.add("mean_squared_error", lower_mean_squared_error);
  kernels.add("mean_squared_error_backward", lower_mean_squared_error_backward);
  kernels.add("top_k_correct", lower_top_k_correct);
}

}  // namespace telar::cpu
