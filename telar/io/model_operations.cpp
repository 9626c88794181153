#include "telar/io/model_operations.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "telar/core/error.h"
#include "telar/graph/ops/accumulate.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/batch_norm.h"
#include "telar/graph/ops/concat.h"
#include "telar/graph/ops/constant.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/dropout.h"
#include "telar/graph/ops/embedding.h"
#include "telar/graph/ops/gather.h"
#include "telar/graph/ops/layer_norm.h"
#include "telar/graph/ops/linear.h"
#include "telar/graph/ops/loss.h"
#include "telar/graph/ops/math.h"
#include "telar/graph/ops/matmul.h"
#include "telar/graph/ops/order.h"
#include "telar/graph/ops/pooling.h"
#include "telar/graph/ops/random_normal.h"
#include "telar/graph/ops/recurrent.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"
#include "telar/graph/ops/softmax.h"
#include "telar/graph/ops/stop_gradient.h"
#include "telar/graph/ops/transpose.h"
#include "telar/graph/ops/whole_numbers.h"

namespace telar {

namespace {

constexpr int64_t kModelAxes = 16;
constexpr int64_t kMostParts = 4096;
constexpr int64_t kLargestStep = 1 << 15;  // of a window; times any extent it stays within 64 bits
constexpr int64_t kModelExtent = int64_t{1} << 47;

using Ids = std::vector<ValueId>;

struct InputForm {
  enum class Presence : uint8_t { required, optional, repeated };
  DType dtype = DType::f32;
  Presence presence = Presence::required;
  bool any = false;  ///< f32 or i32
};

struct AttributeForm {
  enum class Kind : uint8_t { flag, integer, integers, real };
  std::string name;
  Kind kind = Kind::flag;
  double least = 0;
  double most = 0;
  size_t count_least = 0;  ///< integers
  size_t count_most = 0;
  bool optional = false;
};

struct ModelOperation {
  std::string name;
  std::vector<InputForm> inputs;
  std::vector<AttributeForm> attributes;
  std::function<void(GraphBuilder&, const Ids&, const Attributes&)> add;
};

const InputForm kNumbers{};
const InputForm kIndices{.dtype = DType::i32};
const InputForm kAny{.any = true};
const InputForm kOptional{.presence = InputForm::Presence::optional};
const InputForm kOptionalIndices{.dtype = DType::i32, .presence = InputForm::Presence::optional};
const InputForm kOptionalAny{.presence = InputForm::Presence::optional, .any = true};
const InputForm kSeveral{.presence = InputForm::Presence::repeated, .any = true};

AttributeForm flag(const std::string& name) { return {name, AttributeForm::Kind::flag}; }
AttributeForm integer(const std::string& name, int64_t least, int64_t most) {
  return {name, AttributeForm::Kind::integer, static_cast<double>(least), static_cast<double>(most)};
}
AttributeForm real(const std::string& name, double least, double most) {
  return {name, AttributeForm::Kind::real, least, most};
}
AttributeForm integers(const std::string& name, int64_t least, int64_t most, size_t count_least,
                       size_t count_most) {
  return {name,
          AttributeForm::Kind::integers,
          static_cast<double>(least),
          static_cast<double>(most),
          count_least,
          count_most};
}
AttributeForm window(const std::string& name, int64_t least) {
  return integers(name, least, kLargestStep, 2, 2);
}
AttributeForm axis() { return integer("axis", 0, kModelAxes - 1); }
AttributeForm epsilon() { return real("epsilon", std::numeric_limits<double>::min(), 1); }

Conv2dOptions conv2d_options(const Attributes& a) {
  return {a.integers("stride")[0],  a.integers("stride")[1],   a.integers("padding")[0],
          a.integers("padding")[1], a.integers("dilation")[0], a.integers("dilation")[1],
          a.integer("groups")};
}

/// A transposed convolution is the gradient of a convolution; it says the size of its result.
void add_conv_transpose2d(GraphBuilder& g, const Ids& in, const Attributes& a) {
  const auto& size = a.integers("input_size");
  const ConvTranspose2dOptions least{.window = conv2d_options(a)};
  GraphBuilder tried(g);
  const Shape smallest = tried.type(conv_transpose2d(tried, in[0], in[1], kNoValue, least)).shape;
  conv_transpose2d(g, in[0], in[1], kNoValue,
                   {.window = least.window,
                    .output_padding_h = size[0] - smallest[2],
                    .output_padding_w = size[1] - smallest[3]});
}

PoolOptions pool_options(const Attributes& a) {
  return {a.integers("kernel")[0], a.integers("kernel")[1],  a.integers("stride")[0],
          a.integers("stride")[1], a.integers("padding")[0], a.integers("padding")[1]};
}

RecurrentParameters recurrent_parameters(const Ids& in) { return {in[1], in[2], in[3], in[4]}; }

void add_elementwise(std::vector<ModelOperation>& operations) {
  for (const std::string& name : activation_names())
    operations.push_back({name, {kNumbers}, {}, [name](GraphBuilder& g, const Ids& in, const Attributes&) {
                            activation(g, name, in[0]);
                          }});
  operations.push_back(
      {"add", {kNumbers, kNumbers}, {}, [](GraphBuilder& g, const Ids& in, const Attributes&) {
         add(g, in[0], in[1]);
       }});
  operations.push_back(
      {"mul", {kNumbers, kNumbers}, {}, [](GraphBuilder& g, const Ids& in, const Attributes&) {
         mul(g, in[0], in[1]);
       }});
  constexpr double kLargest = std::numeric_limits<float>::max();
  operations.push_back(
      {"scale",
       {kNumbers},
       {real("factor", -kLargest, kLargest)},
       [](GraphBuilder& g, const Ids& in, const Attributes& a) { scale(g, in[0], a.real("factor")); }});
  operations.push_back(
      {"constant",
       {},
       {integers("shape", 1, kModelExtent, 1, kModelAxes), real("value", -kLargest, kLargest)},
       [](GraphBuilder& g, const Ids&, const Attributes& a) {
         constant(g, a.real("value"), Shape(a.integers("shape")));
       }});
  operations.push_back(
      {"softmax", {kNumbers}, {axis()}, [](GraphBuilder& g, const Ids& in, const Attributes& a) {
         softmax(g, in[0], a.integer("axis"));
       }});
}

void add_math(std::vector<ModelOperation>& operations) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  using Function = ValueId (*)(GraphBuilder&, ValueId);
  for (const auto& [name, function] :
       std::initializer_list<std::pair<std::string, Function>>{{"exp", exp},
                                                               {"log", log},
                                                               {"sin", sin},
                                                               {"cos", cos},
                                                               {"atan", atan},
                                                               {"erf", erf},
                                                               {"log1p", log1p},
                                                               {"expm1", expm1},
                                                               {"floor", floor},
                                                               {"round", round}})
    operations.push_back(
        {name, {kNumbers}, {}, [function = function](GraphBuilder& g, const Ids& in, const Attributes&) {
           function(g, in[0]);
         }});
  operations.push_back(
      {"pow",
       {kNumbers},
       {real("exponent", -kLargest, kLargest)},
       [](GraphBuilder& g, const Ids& in, const Attributes& a) { pow(g, in[0], a.real("exponent")); }});
  const std::vector<AttributeForm> limits{real("least", -kLargest, kLargest),
                                          real("most", -kLargest, kLargest)};
  operations.push_back({"clamp", {kNumbers}, limits, [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          clamp(g, in[0], a.real("least"), a.real("most"));
                        }});
  operations.push_back(
      {"within", {kNumbers}, limits, [](GraphBuilder& g, const Ids& in, const Attributes& a) {
         within(g, in[0], a.real("least"), a.real("most"));
       }});
  operations.push_back(
      {"fill",
       {kAny},
       {integers("shape", 1, kModelExtent, 0, kModelAxes - 1), real("value", -kLargest, kLargest)},
       [](GraphBuilder& g, const Ids& in, const Attributes& a) {
         fill(g, a.real("value"), in[0], Shape(a.integers("shape")));
       }});
}

void add_random(std::vector<ModelOperation>& operations) {
  operations.push_back({"dropout",
                        {kNumbers, kIndices, kIndices},
                        {real("rate", std::numeric_limits<double>::min(), std::nextafter(1.0, 0.0))},
                        [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          dropout(g, in[0], a.real("rate"), in[1], in[2]);
                        }});
  operations.push_back({"random_normal",
                        {kIndices, kIndices},
                        {integers("shape", 1, kModelExtent, 0, kModelAxes - 1)},
                        [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          random_normal(g, Shape(a.integers("shape")), in[0], in[1]);
                        }});
}

void add_weighted(std::vector<ModelOperation>& operations) {
  operations.push_back(
      {"linear", {kNumbers, kNumbers, kOptional}, {}, [](GraphBuilder& g, const Ids& in, const Attributes&) {
         linear(g, in[0], in[1], in[2]);
       }});
  operations.push_back({"matmul",
                        {kNumbers, kNumbers},
                        {flag("transpose_a"), flag("transpose_b")},
                        [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          matmul(g, in[0], in[1], a.flag("transpose_a"), a.flag("transpose_b"));
                        }});
  operations.push_back(
      {"conv2d",
       {kNumbers, kNumbers, kOptional},
       {window("stride", 1), window("padding", 0), window("dilation", 1), integer("groups", 1, kModelExtent)},
       [](GraphBuilder& g, const Ids& in, const Attributes& a) {
         conv2d(g, in[0], in[1], in[2], conv2d_options(a));
       }});
  operations.push_back({"conv2d_backward_data",
                        {kNumbers, kNumbers},
                        {window("stride", 1), window("padding", 0), window("dilation", 1),
                         integer("groups", 1, kModelExtent), integers("input_size", 1, kModelExtent, 2, 2)},
                        add_conv_transpose2d});
  operations.push_back(
      {"embedding", {kIndices, kNumbers}, {}, [](GraphBuilder& g, const Ids& in, const Attributes&) {
         embedding(g, in[0], in[1]);
       }});
  std::vector<InputForm> recurrent{kNumbers,  kNumbers,         kNumbers, kOptional,
                                   kOptional, kOptionalIndices, kOptional};
  operations.push_back({"gru", recurrent, {}, [](GraphBuilder& g, const Ids& in, const Attributes&) {
                          gru(g, in[0], recurrent_parameters(in), in[5], {.hidden = in[6]});
                        }});
  recurrent.push_back(kOptional);
  operations.push_back({"lstm", recurrent, {}, [](GraphBuilder& g, const Ids& in, const Attributes&) {
                          lstm(g, in[0], recurrent_parameters(in), in[5], {.hidden = in[6], .cell = in[7]});
                        }});
}

void add_normalising(std::vector<ModelOperation>& operations) {
  operations.push_back({"batch_norm",
                        {kNumbers, kNumbers, kNumbers},
                        {epsilon(), {.name = "biased", .kind = AttributeForm::Kind::flag, .optional = true}},
                        [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          batch_norm(g, in[0], in[1], in[2], a.real("epsilon"), a.flag_or("biased", false));
                        }});
  operations.push_back({"batch_norm_inference",
                        {kNumbers, kNumbers, kNumbers, kNumbers, kNumbers},
                        {epsilon()},
                        [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          batch_norm_inference(g, in[0], in[1], in[2], in[3], in[4], a.real("epsilon"));
                        }});
  operations.push_back({"layer_norm",
                        {kNumbers, kNumbers, kNumbers},
                        {epsilon()},
                        [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          layer_norm(g, in[0], in[1], in[2], a.real("epsilon"));
                        }});
}

void add_shaping(std::vector<ModelOperation>& operations) {
  operations.push_back(
      {"reshape",
       {kAny},
       {integers("dims", -1, kModelExtent, 1, kModelAxes)},
       [](GraphBuilder& g, const Ids& in, const Attributes& a) { reshape(g, in[0], a.integers("dims")); }});
  operations.push_back(
      {"stop_gradient", {kNumbers}, {}, [](GraphBuilder& g, const Ids& in, const Attributes&) {
         stop_gradient(g, in[0]);
       }});
  operations.push_back({"transpose",
                        {kAny},
                        {integers("permutation", 0, kModelAxes - 1, 1, kModelAxes)},
                        [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          transpose(g, in[0], a.integers("permutation"));
                        }});
  operations.push_back(
      {"concat", {kSeveral}, {axis()}, [](GraphBuilder& g, const Ids& in, const Attributes& a) {
         concat(g, in, a.integer("axis"));
       }});
  operations.push_back({"split",
                        {kAny},
                        {axis(), integers("sizes", 1, kModelExtent, 1, kMostParts)},
                        [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          split(g, in[0], a.integer("axis"), a.integers("sizes"));
                        }});
  const std::vector<AttributeForm> pooling{window("kernel", 1), window("stride", 1), window("padding", 0)};
  operations.push_back(
      {"max_pool", {kNumbers}, pooling, [](GraphBuilder& g, const Ids& in, const Attributes& a) {
         max_pool(g, in[0], pool_options(a));
       }});
  operations.push_back(
      {"average_pool", {kNumbers}, pooling, [](GraphBuilder& g, const Ids& in, const Attributes& a) {
         average_pool(g, in[0], pool_options(a));
       }});
}

void add_reducing(std::vector<ModelOperation>& operations) {
  using Reduce = ValueId (*)(GraphBuilder&, ValueId, const std::vector<int64_t>&, bool);
  const std::pair<const char*, Reduce> kReductions[] = {
      {"reduce_sum", reduce_sum}, {"reduce_mean", reduce_mean}, {"reduce_max", reduce_max}};
  for (const auto& [name, reduce] : kReductions)
    operations.push_back({name,
                          {kNumbers},
                          {integers("axes", 0, kModelAxes - 1, 1, kModelAxes), flag("keep_dims")},
                          [reduce = reduce](GraphBuilder& g, const Ids& in, const Attributes& a) {
                            reduce(g, in[0], a.integers("axes"), a.flag("keep_dims"));
                          }});
  const std::vector<AttributeForm> smoothing{real("label_smoothing", 0, std::nextafter(1.0, 0.0))};
  operations.push_back({"cross_entropy",
                        {kNumbers, kIndices},
                        smoothing,
                        [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          cross_entropy(g, in[0], in[1], a.real("label_smoothing"));
                        }});
  operations.push_back({"cross_entropy_of_rows",
                        {kNumbers, kIndices},
                        smoothing,
                        [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          cross_entropy_of_rows(g, in[0], in[1], a.real("label_smoothing"));
                        }});
  operations.push_back(
      {"mean_squared_error", {kNumbers, kNumbers}, {}, [](GraphBuilder& g, const Ids& in, const Attributes&) {
         mean_squared_error(g, in[0], in[1]);
       }});
  operations.push_back({"top_k_correct",
                        {kNumbers, kIndices},
                        {integer("k", 1, kModelExtent)},
                        [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          top_k_correct(g, in[0], in[1], a.integer("k"));
                        }});
  operations.push_back({"accumulate",
                        {kNumbers, kNumbers, kOptionalAny},
                        {},
                        [](GraphBuilder& g, const Ids& in, const Attributes&) {
                          if (in[2] == kNoValue) {
                            accumulate(g, in[0], in[1]);
                          } else {
                            accumulate_times_batch(g, in[0], in[1], in[2]);
                          }
                        }});
}

void add_indexing(std::vector<ModelOperation>& operations) {
  operations.push_back({"order",
                        {kNumbers},
                        {axis(), integer("count", 1, kModelExtent), flag("descending")},
                        [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          order(g, in[0], a.integer("axis"), a.integer("count"), a.flag("descending"));
                        }});
  operations.push_back(
      {"gather", {kNumbers, kIndices}, {axis()}, [](GraphBuilder& g, const Ids& in, const Attributes& a) {
         gather(g, in[0], in[1], a.integer("axis"));
       }});
  operations.push_back({"scatter_add",
                        {kIndices, kNumbers},
                        {axis(), integer("extent", 1, kModelExtent)},
                        [](GraphBuilder& g, const Ids& in, const Attributes& a) {
                          scatter_add(g, in[0], in[1], a.integer("axis"), a.integer("extent"));
                        }});
  operations.push_back({"to_indices", {kNumbers}, {}, [](GraphBuilder& g, const Ids& in, const Attributes&) {
                          to_indices(g, in[0]);
                        }});
  operations.push_back({"to_numbers", {kIndices}, {}, [](GraphBuilder& g, const Ids& in, const Attributes&) {
                          to_numbers(g, in[0]);
                        }});
}

const std::vector<ModelOperation>& operations() {
  static const std::vector<ModelOperation> all = [] {
    std::vector<ModelOperation> list;
    add_elementwise(list);
    add_math(list);
    add_random(list);
    add_weighted(list);
    add_normalising(list);
    add_shaping(list);
    add_reducing(list);
    add_indexing(list);
    return list;
  }();
  return all;
}

void check_type(const ModelOperation& operation, const InputForm& form, const TensorType& type,
                size_t number) {
  if (type.dtype == form.dtype || (form.any && (type.dtype == DType::f32 || type.dtype == DType::i32)))
    return;
  throw user_error("{}: input {} is {}; it must be {}", operation.name, number, type.str(),
                   form.any ? "f32 or i32" : name_of(form.dtype));
}

/// The inputs, with kNoValue for those that are left out at the end.
Ids checked_inputs(const GraphBuilder& graph, const ModelOperation& operation, Ids inputs) {
  const bool repeats =
      !operation.inputs.empty() && operation.inputs.back().presence == InputForm::Presence::repeated;
  if (inputs.size() < operation.inputs.size()) inputs.resize(operation.inputs.size(), kNoValue);
  if (inputs.size() > operation.inputs.size() && !repeats)
    throw user_error("{} has {} inputs; it takes {}", operation.name, inputs.size(), operation.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputForm& form = operation.inputs[std::min(i, operation.inputs.size() - 1)];
    if (inputs[i] != kNoValue) {
      check_type(operation, form, graph.type(inputs[i]), i);
    } else if (form.presence != InputForm::Presence::optional) {
      throw user_error("{}: input {} is missing", operation.name, i);
    }
  }
  return inputs;
}

std::string range_text(const AttributeForm& form) {
  switch (form.kind) {
    case AttributeForm::Kind::flag: return "true or false";
    case AttributeForm::Kind::integer:
      return fmt::format("a whole number from {:.0f} to {:.0f}", form.least, form.most);
    case AttributeForm::Kind::real: return fmt::format("a number from {} to {}", form.least, form.most);
    case AttributeForm::Kind::integers: break;
  }
  return fmt::format("a list of {} whole numbers from {:.0f} to {:.0f}",
                     form.count_least == form.count_most
                         ? std::to_string(form.count_least)
                         : fmt::format("{} to {}", form.count_least, form.count_most),
                     form.least, form.most);
}

bool within(const AttributeForm& form, double value) { return value >= form.least && value <= form.most; }

bool fits(const AttributeForm& form, const Attribute& value) {
  const auto whole = [&](int64_t number) { return within(form, static_cast<double>(number)); };
  switch (form.kind) {
    case AttributeForm::Kind::flag: return std::holds_alternative<bool>(value);
    case AttributeForm::Kind::integer:
      return std::holds_alternative<int64_t>(value) && whole(std::get<int64_t>(value));
    case AttributeForm::Kind::real:
      return std::holds_alternative<double>(value) && within(form, std::get<double>(value));
    case AttributeForm::Kind::integers: break;
  }
  const auto* list = std::get_if<std::vector<int64_t>>(&value);
  return list != nullptr && list->size() >= form.count_least && list->size() <= form.count_most &&
         std::all_of(list->begin(), list->end(), whole);
}

void check_attributes(const ModelOperation& operation, const Attributes& attributes) {
  for (const AttributeForm& form : operation.attributes) {
    if (form.optional && !attributes.has(form.name)) continue;
    if (!attributes.has(form.name))
      throw user_error("{}: the attribute {} is missing; it must be {}", operation.name, form.name,
                       range_text(form));
    if (!fits(form, attributes.at(form.name)))
      throw user_error("{}: the attribute {} must be {}", operation.name, form.name, range_text(form));
  }
}

/// What the file says of the operation is what it does.
void check_added(const Node& added, const Attributes& given) {
  for (const auto& [name, value] : given) {
    if (!added.attributes.has(name)) throw user_error("{} has no attribute {}", added.op->name(), name);
    if (added.attributes.at(name) != value)
      throw user_error("{}: the attribute {} is not the one that follows from its place in the graph",
                       added.op->name(), name);
  }
}

}  // namespace

bool add_model_operation(GraphBuilder& graph, const std::string& name, std::vector<ValueId> inputs,
                         const Attributes& attributes) {
  const auto& all = operations();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const ModelOperation& operation) { return operation.name == name; });
  if (found == all.end()) return false;
  inputs = checked_inputs(graph, *found, std::move(inputs));
  check_attributes(*found, attributes);
  found->add(graph, inputs, attributes);
  check_added(graph.graph().nodes().back(), attributes);
  return true;
}

std::vector<std::string> model_operation_names() {
  std::vector<std::string> names;
  for (const ModelOperation& operation : operations()) names.push_back(operation.name);
  return names;
}

}  // namespace telar
