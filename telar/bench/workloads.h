#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telar/nn/training_step.h"
#include "telar/runtime/session.h"

namespace telar::bench {

/// A training step to measure: a model with its optimizer, and one batch in memory.
struct Workload {
  Model model;
  StepOptions options;
  int64_t classes = 10;
};

/// mlp32, mlp128, convnet; resnet34_7x7 and resnet34_3x3 (the size of the stem) on 32 images of 32×32,
/// resnet34_128 (7×7) on 8 of 128×128, each also as …_bf16; and for GPUs resnet34_224_bf16 (7×7) on 256 of
/// 224×224 and resnet34_3x3_b128_bf16 on 128 of 32×32. Throws Error (user) for any other name.
Workload make_workload(const std::string& name);
std::vector<std::string> workload_names();

/// Random samples of a workload.
struct Samples {
  Samples(const Workload& workload, int64_t count);
  BatchView view() const {
    return {static_cast<int64_t>(labels.size()), {{"x", x.data()}, {"label", labels.data()}}, ids.data()};
  }
  std::vector<float> x;
  std::vector<int32_t> labels;
  std::vector<int64_t> ids;
};

/// A session for the workload: one replica with `threads`, or `replicas` mirrored ones, in each of
/// `processes` if it is not null. The workload's batch is the total over all of them. `device`: "cpu", or
/// "cuda:0".
std::unique_ptr<Session> make_session(const Workload& workload, int replicas, int threads,
                                      Processes* processes = nullptr, const std::string& device = "cpu");

}  // namespace telar::bench
