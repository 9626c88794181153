#pragma once

#include <string>
#include <vector>

#include "support/make_session.h"
#include "telar/nn/layers.h"
#include "telar/nn/zoo.h"

namespace telar::test {

/// A network with as many layers as the tests have stages.
struct StagedCase {
  std::string text;
  Model model;
  int64_t classes = 10;
};

/// Batch norm in three of four layers, a skip connection over a cut, and a value that is read twice.
inline Model normalised() {
  return {"normalised", {2, 8, 8}, DType::f32, [](ModelBuilder& model, ValueId x) {
            const auto block = [&](const std::string& name, ValueId from) {
              const ValueId made = conv2d(model, name, from, {.channels = 8, .kernel = 3, .padding = 1});
              return relu(model, batch_norm(model, name + "_bn", made));
            };
            const ValueId first = block("conv1", x);
            const ValueId sum = add(model, block("conv3", block("conv2", first)), first);
            return linear(model, "fc", flatten(model, sum), 5);
          }};
}

inline std::vector<StagedCase> staged_cases() {
  return {{"mlp", make_model("mlp", {{"hidden", std::vector<int64_t>{33, 20, 17}}}, {12}, 10)},
          {"convnet", make_model("convnet", {}, {1, 28, 28}, 10)},
          {"lstm", make_model("lstm", {{"hidden", int64_t{12}}, {"layers", int64_t{3}}}, {9, 7}, 4), 4},
          {"normalised", normalised(), 5}};
}

/// Pipelines that are data parallel, of stages that may divide their layers.
struct StageGridCase {
  int64_t data = 2;
  int64_t stages = 2;
  int64_t model = 1;

  int workers() const { return static_cast<int>(data * stages * model); }
  std::string text() const {
    return std::to_string(data) + " × " + std::to_string(model) + " × " + std::to_string(stages);
  }
};

inline Attributes options_of(const StageGridCase& grid, const std::vector<std::string>& split = {}) {
  return {{"data", grid.data},
          {"model", grid.model},
          {"stages", grid.stages},
          {"micro_batches", int64_t{4}},
          {"split", split}};
}

}  // namespace telar::test
