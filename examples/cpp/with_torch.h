#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "telar/nn/external_model.h"
#include "telar/nn/training_step.h"
#include "telar/runtime/session.h"
#include "telar/strategy/strategy.h"

// What libtorch.cpp and aoti.cpp share: values of Telar as tensors, and a short training.

constexpr int64_t kBatch = 32;
constexpr int64_t kSteps = 20;
constexpr double kLearningRate = 0.05;
constexpr double kMomentum = 0.9;

/// A tensor of this memory, which must outlive it; nothing is copied.
inline torch::Tensor tensor_of(std::span<const float> values, at::IntArrayRef sizes) {
  return torch::from_blob(const_cast<float*>(values.data()), sizes);
}

/// The numbers by which a call names its samples.
inline torch::Tensor rows_of(const telar::ExternalCall& call) {
  return torch::tensor(at::ArrayRef<int32_t>(call.rows.data(), call.rows.size())).to(torch::kLong);
}

inline void copy_to(std::span<float> result, const torch::Tensor& values) {
  const torch::Tensor numbers = values.contiguous();
  std::copy_n(numbers.data_ptr<float>(), result.size(), result.begin());
}

/// A parameter that begins with the values of a tensor.
inline telar::ParameterInfo parameter_of(const std::string& name, const torch::Tensor& tensor) {
  telar::ParameterInfo parameter{.name = name, .shape = telar::Shape(tensor.sizes().vec())};
  parameter.initializer.kind = telar::Initializer::Kind::given;
  parameter.initializer.give = [values = tensor.detach().clone()](std::span<float> into) {
    copy_to(into, values);
  };
  return parameter;
}

/// The rows of one batch after another, over and over.
inline std::vector<int32_t> rows_of_batch(int64_t step, int64_t samples) {
  std::vector<int32_t> rows(kBatch);
  std::iota(rows.begin(), rows.end(), static_cast<int32_t>(step * kBatch % samples));
  return rows;
}

/// The mean loss of each step, and the predictions for the first batch after them.
struct Training {
  std::vector<double> losses;
  std::vector<float> predictions;
};

/// A training on this many workers, which have one thread each.
inline Training train(const telar::Model& model, int workers, int64_t samples) {
  using namespace telar;
  const Cluster cluster{std::vector<DeviceSpec>(static_cast<size_t>(workers), DeviceSpec{"cpu", 1, {}})};
  StepOptions step;
  step.batch = kBatch;
  step.optimizer = SgdOptions{.momentum = kMomentum};
  const auto strategy = make_strategy(workers > 1 ? "mirrored" : "single", {});
  Session session(strategy.rewrite(make_training_step(model, step), cluster), cluster, {});
  Training training;
  for (int64_t number = 0; number < kSteps; ++number) {
    const std::vector<int32_t> rows = rows_of_batch(number, samples);
    const BatchView batch{.size = kBatch, .inputs = {{"x", rows.data()}}};
    const StepResult result = session.train(batch, {.learning_rate = kLearningRate, .step = number + 1});
    training.losses.push_back(result.metrics[0] / kBatch);
  }
  const std::vector<int32_t> rows = rows_of_batch(0, samples);
  training.predictions = session.predict({.size = kBatch, .inputs = {{"x", rows.data()}}});
  return training;
}

/// The largest difference, relative to the largest number.
template <typename Number>
double difference(const std::vector<Number>& found, const std::vector<Number>& right) {
  double largest = 0;
  double all = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    largest = std::max<double>(largest, std::abs(found.at(i) - right[i]));
    all = std::max<double>(all, std::abs(right[i]));
  }
  return largest / all;
}

/// Says how far these are from the training in PyTorch, and whether that is rounding.
inline bool is_same(const std::string& workers, const Training& found, const Training& right) {
  const double losses = difference(found.losses, right.losses);
  const double predictions = difference(found.predictions, right.predictions);
  std::cout << workers << ": losses " << found.losses.front() << " … " << found.losses.back()
            << ", which differ from PyTorch's by " << losses << ", predictions by " << predictions << "\n";
  return losses <= 1e-5 && predictions <= 1e-5;
}
