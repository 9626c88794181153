#pragma once

#include <string>
#include <vector>

#include "support/formula_fill.h"
#include "support/make_session.h"
#include "support/sanitizers.h"
#include "telar/nn/zoo.h"

namespace telar::test {

/// A strategy that divides layers among workers, with its options.
struct Grid {
  std::string text;  ///< "tensor_2"
  int workers = 2;
  std::string strategy = "tensor";
  Attributes options = {};
};

inline Grid tensor_grid(int64_t ways) {
  return {"tensor_" + std::to_string(ways), static_cast<int>(ways), "tensor", {{"ways", ways}}};
}
inline Grid hybrid_grid(int64_t data, int64_t model) {
  return {"hybrid_" + std::to_string(data) + "x" + std::to_string(model),
          static_cast<int>(data * model),
          "hybrid",
          {{"data", data}, {"model", model}}};
}

/// A network, samples for it, and layers that are divided whatever it costs.
struct GridCase {
  std::string text;
  Model model;
  Shape sample;
  int64_t classes = 10;
  std::vector<std::string> split = {};
  double tolerance = 1e-6;  ///< of gradients, relative; batch norm amplifies rounding
};

/// Sets weights that keep the inputs of ReLUs clear of zero: one that rounds to the other side changes a
/// whole entry of the gradient.
inline void fill_clear_of_zero(Session& session) {
  for (const ParameterInfo& parameter : session.program().parameters) {
    std::vector<float> values(static_cast<size_t>(parameter.shape.elements()));
    formula_fill(parameter, 2, values);
    session.write_state(parameter.name, values);
  }
}

/// A network of token ids whose embedding is divided by rows, unevenly.
inline GridCase words_case() {
  GridCase words{
      "words",
      make_model("lstm", {{"hidden", int64_t{8}}, {"vocabulary", int64_t{23}}, {"embedding", int64_t{6}}},
                 {5}, 3),
      {5},
      3};
  words.split = {"embedding=rows", "fc=whole"};
  return words;
}

/// Sequences of 5 pseudorandom tokens for words_case().
class TokenSamples {
 public:
  explicit TokenSamples(int64_t count) {
    RandomSequence random(8, 1);
    for (int64_t i = 0; i < 5 * count; ++i) tokens_.push_back(static_cast<int32_t>(random.below(23)));
    for (int64_t i = 0; i < count; ++i) labels_.push_back(static_cast<int32_t>(random.below(3)));
    for (int64_t i = 0; i < count; ++i) ids_.push_back(i);
  }
  std::vector<int32_t>& tokens() { return tokens_; }
  BatchView view(int64_t first, int64_t last) const {
    return {last - first,
            {{"x", tokens_.data() + 5 * first}, {"label", labels_.data() + first}},
            ids_.data() + first};
  }

 private:
  std::vector<int32_t> tokens_;
  std::vector<int32_t> labels_;
  std::vector<int64_t> ids_;
};

inline std::vector<GridCase> grid_cases() {
  const auto image = [](int64_t channels, int64_t size) { return Shape{channels, size, size}; };
  GridCase mlp{"mlp", make_model("mlp", {{"hidden", std::vector<int64_t>{33, 20}}}, {12}, 10), {12}};
  mlp.split = {"*=columns"};
  GridCase pair = mlp;
  pair.text = "mlp_in_pairs";
  pair.split = {"fc1=columns", "fc2=rows", "fc3=rows"};
  GridCase convnet{"convnet", make_model("convnet", {}, image(1, 28), 10), image(1, 28)};
  convnet.split = {"conv1=columns", "conv2=rows", "fc1=columns", "fc2=rows"};
  GridCase alexnet{"alexnet", make_model("alexnet", {}, image(3, 64), 10), image(3, 64)};
  GridCase resnet{"resnet18", make_model("resnet18", {{"width", int64_t{16}}}, image(3, 16), 10),
                  image(3, 16)};
  resnet.tolerance = 1e-5;
  resnet.split = {"layer1.0.conv1=columns", "layer1.0.conv2=rows", "layer4.1.conv1=columns", "fc=rows"};
  GridCase lstm{"lstm", make_model("lstm", {{"hidden", int64_t{24}}}, {9, 7}, 4), {9, 7}, 4};
  lstm.split = {"fc=columns"};
  std::vector<GridCase> cases{mlp, pair, convnet, resnet, lstm};
  // Its 57 million parameters take minutes under a sanitizer, and run the same code as the others.
  if (!kSanitized) cases.push_back(alexnet);
  return cases;
}

}  // namespace telar::test
