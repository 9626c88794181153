#include "telar/io/onnx/onnx_builder.h"

#include <bit>
#include <cstring>

namespace telar {

namespace {

static_assert(std::endian::native == std::endian::little, "the format's numbers are little-endian");

constexpr int32_t kRealOption = 1, kIntegerOption = 2, kIntegersOption = 7;

void set_option(onnx_format::AttributeProto& attribute, const OnnxBuilder::Option& option) {
  if (const auto* integer = std::get_if<int64_t>(&option)) {
    attribute.set_type(kIntegerOption);
    attribute.set_i(*integer);
  } else if (const auto* real = std::get_if<double>(&option)) {
    attribute.set_type(kRealOption);
    attribute.set_f(static_cast<float>(*real));
  } else {
    attribute.set_type(kIntegersOption);
    for (const int64_t value : std::get<std::vector<int64_t>>(option)) attribute.add_ints(value);
  }
}

template <typename Number>
void fill(onnx_format::TensorProto& tensor, const std::vector<Number>& values) {
  tensor.mutable_raw_data()->assign(reinterpret_cast<const char*>(values.data()),
                                    values.size() * sizeof(Number));
}

}  // namespace

std::string OnnxBuilder::fresh() {
  std::string name;
  do {
    name = "v" + std::to_string(next_++);
  } while (reserved_.contains(name));
  return name;
}

std::string OnnxBuilder::add(const std::string& type, const Names& inputs, const Options& options) {
  return add_many(type, inputs, 1, options)[0];
}

OnnxBuilder::Names OnnxBuilder::add_many(const std::string& type, const Names& inputs, size_t outputs,
                                         const Options& options) {
  onnx_format::NodeProto& node = *graph_.add_node();
  node.set_op_type(type);
  size_t count = inputs.size();
  while (count > 0 && inputs[count - 1].empty()) --count;
  for (size_t i = 0; i < count; ++i) node.add_input(inputs[i]);
  Names names;
  for (size_t i = 0; i < outputs; ++i) names.push_back(fresh());
  for (const std::string& name : names) node.add_output(name);
  node.set_name(scope_.empty() ? names[0] : scope_ + "/" + names[0]);
  for (const auto& [name, option] : options) {
    onnx_format::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    set_option(attribute, option);
  }
  return names;
}

std::string OnnxBuilder::number(double value) { return numbers({value}, {}); }

std::string OnnxBuilder::numbers(const std::vector<double>& values, const std::vector<int64_t>& shape,
                                 bool wide) {
  onnx_format::TensorProto& made = tensor(fresh(), wide ? kOnnxF64 : kOnnxF32, shape);
  if (wide) {
    fill(made, values);
  } else {
    fill(made, std::vector<float>(values.begin(), values.end()));
  }
  return made.name();
}

std::string OnnxBuilder::integers(const std::vector<int64_t>& values) {
  onnx_format::TensorProto& made = tensor(fresh(), kOnnxI64, {std::ssize(values)});
  fill(made, values);
  return made.name();
}

std::string OnnxBuilder::extents(const std::string& value, int64_t begin, int64_t end) {
  return add("Slice", {add("Shape", {value}), integers({begin}), integers({end})});
}

onnx_format::TensorProto& OnnxBuilder::tensor(const std::string& name, int32_t type,
                                              const std::vector<int64_t>& shape) {
  onnx_format::TensorProto& made = *graph_.add_initializer();
  made.set_name(name);
  made.set_data_type(type);
  for (const int64_t extent : shape) made.add_dims(extent);
  return made;
}

}  // namespace telar
