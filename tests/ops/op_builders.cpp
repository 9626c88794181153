#include <functional>

#include "ops/op_case.h"
#include "telar/core/error.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/batch_norm.h"
#include "telar/graph/ops/concat.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/embedding.h"
#include "telar/graph/ops/layer_norm.h"
#include "telar/graph/ops/linear.h"
#include "telar/graph/ops/loss.h"
#include "telar/graph/ops/matmul.h"
#include "telar/graph/ops/pooling.h"
#include "telar/graph/ops/recurrent.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"
#include "telar/graph/ops/softmax.h"
#include "telar/graph/ops/transpose.h"

namespace telar::test {

namespace {

/// The operation's inputs by name (a missing one is kNoValue) and its attributes.
struct Given {
  const std::map<std::string, ValueId>& values;
  const nlohmann::json& attributes;

  ValueId operator[](const std::string& name) const {
    const auto found = values.find(name);
    return found == values.end() ? kNoValue : found->second;
  }
  std::vector<int64_t> integers(const char* name) const { return attributes.at(name); }
  double real(const char* name) const { return attributes.at(name); }
  int64_t integer(const char* name) const { return attributes.at(name); }
  bool flag(const char* name) const { return attributes.at(name); }
};

using Outputs = std::vector<ValueId>;
using Build = std::function<Outputs(GraphBuilder&, const Given&)>;

Conv2dOptions conv2d_options(const Given& g) {
  const auto stride = g.integers("stride");
  const auto padding = g.integers("padding");
  const auto dilation = g.integers("dilation");
  return {stride[0], stride[1], padding[0], padding[1], dilation[0], dilation[1], g.integer("groups")};
}

PoolOptions pool_options(const Given& g) {
  const auto kernel = g.integers("kernel");
  const auto stride = g.integers("stride");
  const auto padding = g.integers("padding");
  return {kernel[0], kernel[1], stride[0], stride[1], padding[0], padding[1]};
}

RecurrentParameters recurrent_parameters(const Given& g) {
  return {g["weight_ih"], g["weight_hh"], g["bias_ih"], g["bias_hh"]};
}

RecurrentStates initial_states(const Given& g) { return {g["hidden_before"], g["cell_before"]}; }

Outputs build_batch_norm(GraphBuilder& b, const Given& g) {
  const BatchNormResult result = batch_norm(b, g["x"], g["gamma"], g["beta"], g.real("epsilon"));
  return {result.y, result.mean, result.variance};
}

Outputs build_concat(GraphBuilder& b, const Given& g) {
  std::vector<ValueId> parts;
  for (const auto& part : g.values) parts.push_back(part.second);
  return {concat(b, parts, g.integer("axis"))};
}

Outputs build_lstm(GraphBuilder& b, const Given& g) {
  const RecurrentResult result = lstm(b, g["x"], recurrent_parameters(g), g["lengths"], initial_states(g));
  return {result.y, result.hidden, result.cell};
}

Outputs build_gru(GraphBuilder& b, const Given& g) {
  const RecurrentResult result = gru(b, g["x"], recurrent_parameters(g), g["lengths"], initial_states(g));
  return {result.y, result.hidden};
}

ValueId conv3x3(GraphBuilder& b, ValueId x, ValueId w, ValueId bias = kNoValue) {
  return conv2d(b, x, w, bias, {1, 1, 1, 1, 1, 1, 1});
}

Outputs build_residual(GraphBuilder& b, const Given& g) {
  const auto norm = [&](ValueId x, const std::string& name) {
    return batch_norm(b, x, g[name + ".gamma"], g[name + ".beta"], 1e-5).y;
  };
  const ValueId y = relu(b, norm(conv3x3(b, g["x"], g["conv1"]), "bn1"));
  const ValueId z = relu(b, add(b, norm(conv3x3(b, y, g["conv2"]), "bn2"), g["x"]));
  return {linear(b, flatten(b, global_average_pool(b, z)), g["fc.weight"], g["fc.bias"])};
}

Outputs build_inception(GraphBuilder& b, const Given& g) {
  const ValueId narrow = conv2d(b, g["x"], g["narrow"], kNoValue, {});
  const ValueId y = relu(b, concat(b, {narrow, conv3x3(b, g["x"], g["wide"], g["wide.bias"])}, 1));
  const auto parts = split(b, y, 1, {32, 16});
  const ValueId pooled =
      concat(b, {flatten(b, max_pool(b, parts[0], {})), flatten(b, average_pool(b, parts[1], {}))}, 1);
  return {relu(b, linear(b, pooled, g["fc.weight"], g["fc.bias"])), reduce_mean(b, y, {2, 3})};
}

Outputs build_attention(GraphBuilder& b, const Given& g) {
  const ValueId x = reshape(b, layer_norm(b, g["x"], g["norm.gamma"], g["norm.beta"], 1e-5), {10, 8});
  const auto heads = [&](const char* weights) {
    return transpose(b, reshape(b, linear(b, x, g[weights], kNoValue), {2, 5, 2, 4}), {0, 2, 1, 3});
  };
  const ValueId scores = scale(b, matmul(b, heads("q"), heads("k"), false, true), 0.5);
  const ValueId mixed = matmul(b, softmax(b, scores, -1), heads("v"));
  return {gelu(b, add(b, g["x"], reshape(b, transpose(b, mixed, {0, 2, 1, 3}), {2, 5, 8})))};
}

Outputs build_sequence(GraphBuilder& b, const Given& g) {
  const RecurrentResult result =
      lstm(b, embedding(b, g["tokens"], g["table"]), recurrent_parameters(g), g["lengths"]);
  const ValueId features = concat(b, {result.hidden, reduce_max(b, result.y, {1})}, 1);
  return {linear(b, features, g["fc.weight"], g["fc.bias"])};
}

const std::map<std::string, Build>& builders() {
  using B = GraphBuilder;
  using G = Given;
  static const std::map<std::string, Build> known = {
      {"add", [](B& b, const G& g) { return Outputs{add(b, g["a"], g["b"])}; }},
      {"average_pool", [](B& b, const G& g) { return Outputs{average_pool(b, g["x"], pool_options(g))}; }},
      {"batch_norm", build_batch_norm},
      {"batch_norm_inference",
       [](B& b, const G& g) {
         return Outputs{batch_norm_inference(b, g["x"], g["gamma"], g["beta"], g["mean"], g["variance"],
                                             g.real("epsilon"))};
       }},
      {"concat", build_concat},
      {"conv2d",
       [](B& b, const G& g) {
         return Outputs{conv2d(b, g["x"], g["weight"], g["bias"], conv2d_options(g))};
       }},
      {"cross_entropy",
       [](B& b, const G& g) {
         return Outputs{cross_entropy(b, g["logits"], g["label"], g.real("label_smoothing"))};
       }},
      {"embedding", [](B& b, const G& g) { return Outputs{embedding(b, g["tokens"], g["table"])}; }},
      {"flatten", [](B& b, const G& g) { return Outputs{flatten(b, g["x"])}; }},
      {"gelu", [](B& b, const G& g) { return Outputs{gelu(b, g["x"])}; }},
      {"global_average_pool", [](B& b, const G& g) { return Outputs{global_average_pool(b, g["x"])}; }},
      {"gru", build_gru},
      {"layer_norm",
       [](B& b, const G& g) {
         return Outputs{layer_norm(b, g["x"], g["gamma"], g["beta"], g.real("epsilon"))};
       }},
      {"linear", [](B& b, const G& g) { return Outputs{linear(b, g["x"], g["weight"], g["bias"])}; }},
      {"lstm", build_lstm},
      {"matmul",
       [](B& b, const G& g) {
         return Outputs{matmul(b, g["a"], g["b"], g.flag("transpose_a"), g.flag("transpose_b"))};
       }},
      {"max_pool", [](B& b, const G& g) { return Outputs{max_pool(b, g["x"], pool_options(g))}; }},
      {"mean_squared_error",
       [](B& b, const G& g) { return Outputs{mean_squared_error(b, g["prediction"], g["target"])}; }},
      {"mul", [](B& b, const G& g) { return Outputs{mul(b, g["a"], g["b"])}; }},
      {"network_attention", build_attention},
      {"network_inception", build_inception},
      {"network_residual", build_residual},
      {"network_sequence", build_sequence},
      {"reduce_max",
       [](B& b, const G& g) {
         return Outputs{reduce_max(b, g["x"], g.integers("axes"), g.flag("keep_dims"))};
       }},
      {"reduce_mean",
       [](B& b, const G& g) {
         return Outputs{reduce_mean(b, g["x"], g.integers("axes"), g.flag("keep_dims"))};
       }},
      {"reduce_sum",
       [](B& b, const G& g) {
         return Outputs{reduce_sum(b, g["x"], g.integers("axes"), g.flag("keep_dims"))};
       }},
      {"relu", [](B& b, const G& g) { return Outputs{relu(b, g["x"])}; }},
      {"reshape", [](B& b, const G& g) { return Outputs{reshape(b, g["x"], g.integers("dims"))}; }},
      {"scale", [](B& b, const G& g) { return Outputs{scale(b, g["x"], g.real("factor"))}; }},
      {"sigmoid", [](B& b, const G& g) { return Outputs{sigmoid(b, g["x"])}; }},
      {"softmax", [](B& b, const G& g) { return Outputs{softmax(b, g["x"], g.integer("axis"))}; }},
      {"split", [](B& b, const G& g) { return split(b, g["x"], g.integer("axis"), g.integers("sizes")); }},
      {"tanh", [](B& b, const G& g) { return Outputs{telar::tanh(b, g["x"])}; }},
      {"top_k_correct",
       [](B& b, const G& g) { return Outputs{top_k_correct(b, g["logits"], g["label"], g.integer("k"))}; }},
      {"transpose",
       [](B& b, const G& g) { return Outputs{transpose(b, g["x"], g.integers("permutation"))}; }},
  };
  return known;
}

}  // namespace

std::vector<ValueId> add_operation(GraphBuilder& builder, const OpCase& op_case,
                                   const std::map<std::string, ValueId>& values) {
  const auto found = builders().find(op_case.op);
  if (found == builders().end()) throw run_error("the tests know no operation '{}'", op_case.op);
  return found->second(builder, {values, op_case.attributes});
}

}  // namespace telar::test
