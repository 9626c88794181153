#include "telar/io/onnx/onnx_file.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "telar/core/error.h"
#include "telar/core/version.h"
#include "telar/io/onnx/onnx_builder.h"

namespace telar {

namespace {

constexpr int64_t kFormat = 8;
constexpr int64_t kOperators = 17;
/// protobuf's limit of a message; the graph itself takes little of it.
constexpr int64_t kMostBytes = (int64_t{1} << 31) - (int64_t{1} << 24);

void describe(onnx_format::ValueInfoProto& info, const std::string& name, int32_t type, const Shape& shape,
              bool batched) {
  info.set_name(name);
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    auto& extent = *tensor.mutable_shape()->add_dim();
    if (axis == 0 && batched) {
      extent.set_dim_param("N");
    } else {
      extent.set_dim_value(shape[axis]);
    }
  }
}

/// (x − mean) / std, with one pair for each item of axis 1.
std::string normalised(OnnxBuilder& onnx, const std::string& x, const Shape& shape, const OnnxForm& form) {
  std::vector<int64_t> extents(shape.rank(), 1);
  if (form.mean.size() > 1) extents[1] = std::ssize(form.mean);
  std::string y = onnx.add("Sub", {x, onnx.numbers(form.mean, extents, form.wide)});
  y = onnx.add("Div", {y, onnx.numbers(form.std, extents, form.wide)});
  return form.wide ? onnx.cast(y, kOnnxF32) : y;
}

/// What people ask for of the prediction [N, …].
std::string result(OnnxBuilder& onnx, const std::string& prediction, OnnxForm::Result wanted) {
  if (wanted == OnnxForm::Result::values) return prediction;
  if (wanted == OnnxForm::Result::probabilities) return onnx.add("Sigmoid", {prediction});
  return onnx.add("Softmax", {prediction}, {{"axis", int64_t{-1}}});
}

void add_parameter(OnnxBuilder& onnx, const Value& value, const std::string& name,
                   const std::function<void(const std::string&, std::span<float>)>& give) {
  const Shape& shape = value.type.shape;
  std::string& bytes = *onnx.tensor(name, kOnnxF32, shape.dims()).mutable_raw_data();
  bytes.resize(static_cast<size_t>(value.type.bytes()));
  give(value.name, {reinterpret_cast<float*>(bytes.data()), static_cast<size_t>(shape.elements())});
}

void require_size(const Graph& graph) {
  int64_t bytes = 0;
  for (const ValueId id : graph.of_kind(ValueKind::parameter)) bytes += graph.value(id).type.bytes();
  if (bytes > kMostBytes)
    throw user_error("the model's parameters have {} MB, but an ONNX file has less than 2,147",
                     bytes / 1000000);
}

}  // namespace

void write_onnx(OutputFile& file, const Graph& prediction,
                const std::function<void(const std::string&, std::span<float>)>& give, const OnnxForm& form) {
  require_size(prediction);
  onnx_format::ModelProto model;
  model.set_ir_version(kFormat);
  model.add_opset_import()->set_version(kOperators);
  model.set_producer_name("telar");
  model.set_producer_version(version());
  for (const auto& [key, text] : form.metadata) {
    auto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(text);
  }
  onnx_format::GraphProto& graph = *model.mutable_graph();
  graph.set_name(form.name);
  OnnxBuilder onnx(graph);

  std::vector<std::string> names(prediction.values().size());
  const auto name_of_value = [&](ValueId id) { return id == kNoValue ? "" : names[static_cast<size_t>(id)]; };
  const std::string output = form.result == OnnxForm::Result::values ? "values" : "probabilities";
  std::set<std::string> taken = {output};  // by inputs and the output, which people write
  for (const Value& value : prediction.values()) {
    onnx.reserve(value.name);
    if (value.kind == ValueKind::input) taken.insert(value.name);
  }
  onnx.reserve(output);
  for (size_t id = 0; id < names.size(); ++id) {
    const Value& value = prediction.values()[id];
    if (value.kind == ValueKind::result) continue;
    names[id] = value.name;
    if (value.kind == ValueKind::parameter) {
      while (!taken.insert(names[id]).second) names[id] += ".parameter";
      onnx.reserve(names[id]);
      add_parameter(onnx, value, names[id], give);
      continue;
    }
    const bool is_x = value.name == "x" && value.type.dtype == DType::f32;
    const bool wide = is_x && form.wide && !form.mean.empty();
    auto& info = *graph.add_input();
    describe(info, value.name, wide ? kOnnxF64 : onnx_type(value.type.dtype), value.type.shape,
             value.batched);
    if (value.name == "x") info.set_doc_string(form.described);
    if (is_x && !form.mean.empty()) names[id] = normalised(onnx, value.name, value.type.shape, form);
  }
  for (const Node& node : prediction.nodes()) {
    OnnxBuilder::Names inputs;
    std::ranges::transform(node.inputs, std::back_inserter(inputs), name_of_value);
    const OnnxBuilder::Names outputs = add_onnx(onnx, prediction, node, inputs);
    for (size_t i = 0; i < outputs.size(); ++i) names[static_cast<size_t>(node.outputs[i])] = outputs[i];
  }
  onnx.set_scope("");
  const ValueId last = prediction.output("prediction");
  const Shape& shape = prediction.value(last).type.shape;
  const std::string end = result(onnx, name_of_value(last), form.result);
  onnx_format::NodeProto& renamed = *graph.add_node();
  renamed.set_op_type("Identity");
  renamed.add_input(end);
  renamed.add_output(output);
  renamed.set_name(output);
  describe(*graph.add_output(), output, kOnnxF32, shape, true);

  std::string bytes;
  if (!model.SerializeToString(&bytes))
    throw user_error("the model has 2 GB and more, which an ONNX file cannot");
  file.write(bytes);
}

}  // namespace telar
