#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <string_view>

#include "telar/core/error.h"
#include "telar/io/onnx/onnx_builder.h"

namespace telar {

namespace {

using Names = OnnxBuilder::Names;
using Options = OnnxBuilder::Options;

/// A node, with the names of its inputs.
struct Place {
  OnnxBuilder& onnx;
  const Attributes& attributes;
  const Names& inputs;
  const std::vector<TensorType>& types;    ///< of the inputs
  const std::vector<TensorType>& results;  ///< of the outputs

  std::string operator()(const std::string& type, const Names& of, const Options& options = {}) const {
    return onnx.add(type, of, options);
  }
  std::vector<int64_t> pair(const std::string& name) const { return attributes.integers(name); }
  /// Padding of both ends of height and width.
  std::vector<int64_t> pads() const {
    const auto& padding = attributes.integers("padding");
    return {padding[0], padding[1], padding[0], padding[1]};
  }
  std::string scaled(const std::string& value, double factor) const {
    return onnx.add("Mul", {value, onnx.number(factor)});
  }
  std::string plus(const std::string& value, double addend) const {
    return onnx.add("Add", {value, onnx.number(addend)});
  }
};

std::string gelu(const Place& at) {
  const std::string& x = at.inputs[0];
  return at.scaled(at("Mul", {x, at.plus(at("Erf", {at.scaled(x, 1 / std::numbers::sqrt2)}), 1)}), 0.5);
}

std::string gelu_tanh(const Place& at) {
  const std::string& x = at.inputs[0];
  const std::string cube = at("Mul", {at("Mul", {x, x}), x});
  const std::string inner =
      at.scaled(at("Add", {x, at.scaled(cube, 0.044715)}), std::sqrt(2 / std::numbers::pi));
  return at.scaled(at("Mul", {x, at.plus(at("Tanh", {inner}), 1)}), 0.5);
}

/// log(u) − ((u − 1) − x) / u with u = 1 + x, which has the digits of a small x that u has lost.
std::string log1p(const Place& at) {
  const std::string& x = at.inputs[0];
  const std::string u = at.plus(x, 1);
  const std::string lost = at("Div", {at("Sub", {at.plus(u, -1), x}), u});
  return at("Sub", {at("Log", {u}), lost});
}

/// tanh(x / 2) · (eˣ + 1), likewise.
std::string expm1(const Place& at) {
  const std::string& x = at.inputs[0];
  return at("Mul", {at("Tanh", {at.scaled(x, 0.5)}), at.plus(at("Exp", {x}), 1)});
}

std::string linear(const Place& at) { return at("Gemm", at.inputs, {{"transB", int64_t{1}}}); }

std::string conv2d(const Place& at) {
  return at("Conv", at.inputs,
            {{"kernel_shape", std::vector{at.types[1].shape[2], at.types[1].shape[3]}},
             {"strides", at.pair("stride")},
             {"pads", at.pads()},
             {"dilations", at.pair("dilation")},
             {"group", at.attributes.integer("groups")}});
}

/// As a transposed convolution's forward pass.
std::string conv_transpose2d(const Place& at) {
  const Shape& x = at.types[0].shape;
  const Shape& w = at.types[1].shape;
  std::vector<int64_t> more;
  for (size_t i = 0; i < 2; ++i)
    more.push_back(at.pair("input_size")[i] - (x[2 + i] - 1) * at.pair("stride")[i] +
                   2 * at.pair("padding")[i] - at.pair("dilation")[i] * (w[2 + i] - 1) - 1);
  return at("ConvTranspose", at.inputs,
            {{"kernel_shape", std::vector{w[2], w[3]}},
             {"strides", at.pair("stride")},
             {"pads", at.pads()},
             {"dilations", at.pair("dilation")},
             {"output_padding", more},
             {"group", at.attributes.integer("groups")}});
}

std::string max_pool(const Place& at) {
  return at("MaxPool", at.inputs,
            {{"kernel_shape", at.pair("kernel")}, {"strides", at.pair("stride")}, {"pads", at.pads()}});
}

std::string average_pool(const Place& at) {
  return at("AveragePool", at.inputs,
            {{"kernel_shape", at.pair("kernel")},
             {"strides", at.pair("stride")},
             {"pads", at.pads()},
             {"count_include_pad", int64_t{1}}});
}

std::string batch_norm(const Place& at) {
  return at("BatchNormalization", at.inputs, {{"epsilon", at.attributes.real("epsilon")}});
}

std::string layer_norm(const Place& at) {
  return at("LayerNormalization", at.inputs,
            {{"axis", int64_t{-1}}, {"epsilon", at.attributes.real("epsilon")}});
}

std::string matmul(const Place& at) {
  Names operands = at.inputs;
  for (size_t i = 0; i < 2; ++i) {
    if (!at.attributes.flag(i == 0 ? "transpose_a" : "transpose_b")) continue;
    const auto rank = static_cast<int64_t>(at.types[i].shape.rank());
    std::vector<int64_t> order;
    for (int64_t axis = 0; axis < rank - 2; ++axis) order.push_back(axis);
    order.insert(order.end(), {rank - 1, rank - 2});
    operands[i] = at("Transpose", {operands[i]}, {{"perm", order}});
  }
  return at("MatMul", operands);
}

std::string reduce(const Place& at, const std::string& type) {
  const auto& axes = at.attributes.integers("axes");
  const int64_t keep = at.attributes.flag("keep_dims") ? 1 : 0;
  const std::string reduced = type == "ReduceSum"
                                  ? at(type, {at.inputs[0], at.onnx.integers(axes)}, {{"keepdims", keep}})
                                  : at(type, at.inputs, {{"axes", axes}, {"keepdims", keep}});
  const bool all = keep == 0 && axes.size() == at.types[0].shape.rank();
  return all ? at("Reshape", {reduced, at.onnx.integers({1})}) : reduced;
}

std::string fill_of_constant(const Place& at, const std::string& shape) {
  return at("Expand", {at.onnx.number(at.attributes.real("value")), shape});
}

std::string fill_for_batch(const Place& at) {
  const std::string item = at.onnx.integers(at.attributes.integers("shape"));
  return fill_of_constant(at,
                          at("Concat", {at.onnx.extents(at.inputs[0], 0, 1), item}, {{"axis", int64_t{0}}}));
}

/// Of an index for each place of the result.
std::string gather(const Place& at) {
  const int64_t axis = at.attributes.integer("axis");
  const std::string& x = at.inputs[0];
  const auto rank = static_cast<int64_t>(at.types[0].shape.rank());
  const std::string shape = at("Concat",
                               {at.onnx.extents(x, 0, axis), at.onnx.extents(at.inputs[1], axis, axis + 1),
                                at.onnx.extents(x, axis + 1, rank)},
                               {{"axis", int64_t{0}}});
  return at("GatherElements", {x, at("Expand", {at.inputs[1], shape})}, {{"axis", axis}});
}

std::string order(const Place& at) {
  const Names found =
      at.onnx.add_many("TopK", {at.inputs[0], at.onnx.integers({at.attributes.integer("count")})}, 2,
                       {{"axis", at.attributes.integer("axis")},
                        {"largest", int64_t{at.attributes.flag("descending") ? 1 : 0}}});
  return at.onnx.cast(found[1], kOnnxI32);
}

std::string within(const Place& at) {
  const std::string above = at("GreaterOrEqual", {at.inputs[0], at.onnx.number(at.attributes.real("least"))});
  const std::string below = at("LessOrEqual", {at.inputs[0], at.onnx.number(at.attributes.real("most"))});
  return at.onnx.cast(at("And", {above, below}), kOnnxF32);
}

/// The gates of a weight or bias in ONNX's order, with an axis for the direction in front.
std::string gates(const Place& at, const std::string& value, const std::vector<size_t>& sequence) {
  const Names parts = at.onnx.add_many("Split", {value}, sequence.size(), {{"axis", int64_t{0}}});
  Names ordered;
  for (const size_t part : sequence) ordered.push_back(parts[part]);
  return at("Unsqueeze", {at("Concat", ordered, {{"axis", int64_t{0}}}), at.onnx.integers({0})});
}

Names recurrent(const Place& at, const std::string& type, const std::vector<size_t>& sequence,
                const Options& options) {
  const auto input = [&](size_t i) { return i < at.inputs.size() ? at.inputs[i] : std::string(); };
  const auto with_direction = [&](const std::string& state) {
    return state.empty() ? state : at("Unsqueeze", {state, at.onnx.integers({0})});
  };
  std::string biases;
  if (!input(3).empty())
    biases =
        at("Concat", {gates(at, input(3), sequence), gates(at, input(4), sequence)}, {{"axis", int64_t{1}}});
  std::string lengths = input(5);
  if (!lengths.empty()) {
    const std::string most = at.onnx.cast(at.onnx.integers({at.types[0].shape[1]}), kOnnxI32);
    lengths = at("Max", {at.onnx.cast(at.onnx.integers({1}), kOnnxI32), at("Min", {lengths, most})});
  }
  Names inputs = {at("Transpose", {input(0)}, {{"perm", std::vector<int64_t>{1, 0, 2}}}),
                  gates(at, input(1), sequence),
                  gates(at, input(2), sequence),
                  biases,
                  lengths,
                  with_direction(input(6)),
                  with_direction(input(7))};
  if (type == "GRU") inputs.pop_back();
  Options all = options;
  all.emplace_back("hidden_size", at.types[2].shape[1]);
  Names results = at.onnx.add_many(type, inputs, type == "GRU" ? 2 : 3, all);
  const std::string steps = at("Squeeze", {results[0], at.onnx.integers({1})});  // [T, 1, N, H]
  results[0] = at("Transpose", {steps}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  for (size_t i = 1; i < results.size(); ++i) results[i] = at("Squeeze", {results[i], at.onnx.integers({0})});
  return results;
}

using Rule = std::function<Names(const Place&)>;

/// An operation of the same meaning, without options.
Rule same(const std::string& type) {
  return [type](const Place& at) { return Names{at(type, at.inputs)}; };
}

Rule one(std::string (*rule)(const Place&)) {
  return [rule](const Place& at) { return Names{rule(at)}; };
}

template <typename Made>
Rule made(Made rule) {
  return [rule](const Place& at) { return Names{rule(at)}; };
}

const std::map<std::string_view, Rule>& rules() {
  static const std::map<std::string_view, Rule> kRules = {
      {"add", same("Add")},
      {"mul", same("Mul")},
      {"relu", same("Relu")},
      {"sigmoid", same("Sigmoid")},
      {"tanh", same("Tanh")},
      {"softplus", same("Softplus")},
      {"hardswish", same("HardSwish")},
      {"elu", same("Elu")},
      {"leaky_relu", same("LeakyRelu")},
      {"exp", same("Exp")},
      {"log", same("Log")},
      {"sin", same("Sin")},
      {"cos", same("Cos")},
      {"atan", same("Atan")},
      {"erf", same("Erf")},
      {"floor", same("Floor")},
      {"round", same("Round")},
      {"stop_gradient", same("Identity")},
      {"gelu", one(gelu)},
      {"gelu_tanh", one(gelu_tanh)},
      {"silu", made([](const Place& at) {
         return at("Mul", {at.inputs[0], at("Sigmoid", at.inputs)});
       })},
      {"log1p", one(log1p)},
      {"expm1", one(expm1)},
      {"scale", made([](const Place& at) { return at.scaled(at.inputs[0], at.attributes.real("factor")); })},
      {"pow", made([](const Place& at) {
         return at("Pow", {at.inputs[0], at.onnx.number(at.attributes.real("exponent"))});
       })},
      {"clamp", made([](const Place& at) {
         return at("Clip", {at.inputs[0], at.onnx.number(at.attributes.real("least")),
                            at.onnx.number(at.attributes.real("most"))});
       })},
      {"within", one(within)},
      {"to_indices", made([](const Place& at) { return at.onnx.cast(at("Round", at.inputs), kOnnxI32); })},
      {"to_numbers", made([](const Place& at) { return at.onnx.cast(at.inputs[0], kOnnxF32); })},
      {"linear", one(linear)},
      {"matmul", one(matmul)},
      {"conv2d", one(conv2d)},
      {"conv2d_backward_data", one(conv_transpose2d)},
      {"max_pool", one(max_pool)},
      {"average_pool", one(average_pool)},
      {"batch_norm_inference", one(batch_norm)},
      {"layer_norm", one(layer_norm)},
      {"softmax", made([](const Place& at) {
         return at("Softmax", at.inputs, {{"axis", at.attributes.integer("axis")}});
       })},
      {"embedding", made([](const Place& at) {
         return at("Gather", {at.inputs[1], at.inputs[0]});
       })},
      {"gather", one(gather)},
      {"order", one(order)},
      {"reduce_sum", made([](const Place& at) { return reduce(at, "ReduceSum"); })},
      {"reduce_mean", made([](const Place& at) { return reduce(at, "ReduceMean"); })},
      {"reduce_max", made([](const Place& at) { return reduce(at, "ReduceMax"); })},
      {"constant", made([](const Place& at) {
         return fill_of_constant(at, at.onnx.integers(at.attributes.integers("shape")));
       })},
      {"fill", one(fill_for_batch)},
      {"reshape", made([](const Place& at) {
         return at("Reshape", {at.inputs[0], at.onnx.integers(at.attributes.integers("dims"))});
       })},
      {"transpose", made([](const Place& at) {
         return at("Transpose", at.inputs, {{"perm", at.attributes.integers("permutation")}});
       })},
      {"concat", made([](const Place& at) {
         return at("Concat", at.inputs, {{"axis", at.attributes.integer("axis")}});
       })},
      {"split",
       [](const Place& at) {
         return at.onnx.add_many("Split", {at.inputs[0], at.onnx.integers(at.attributes.integers("sizes"))},
                                 at.results.size(), {{"axis", at.attributes.integer("axis")}});
       }},
      {"lstm",
       [](const Place& at) {
         return recurrent(at, "LSTM", {0, 3, 1, 2}, {});
       }},
      {"gru",
       [](const Place& at) {
         return recurrent(at, "GRU", {1, 0, 2}, {{"linear_before_reset", int64_t{1}}});
       }},
  };
  return kRules;
}

}  // namespace

Names add_onnx(OnnxBuilder& onnx, const Graph& graph, const Node& node, const Names& inputs) {
  const auto rule = rules().find(node.op->name());
  if (rule == rules().end())
    throw user_error("{}: the operation '{}' cannot be written as ONNX; replace it, or predict with telar",
                     node.scope.empty() ? "the model" : node.scope, node.op->name());
  onnx.set_scope(node.scope);
  Names names =
      rule->second({onnx, node.attributes, inputs, graph.input_types(node), graph.output_types(node)});
  if (node.attributes.text_or("activation", "") == "relu") names[0] = onnx.add("Relu", {names[0]});
  return names;
}

}  // namespace telar
