#include "ops/op_case.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "telar/core/error.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/convert.h"
#include "telar/graph/ops/reduce.h"

namespace telar::testing {

namespace {

constexpr std::array<const char*, 3> kIntegers = {"label", "tokens", "lengths"};
constexpr std::array<const char*, 7> kKeptInF32 = {"bias",     "gamma",   "beta",   "mean",
                                                   "variance", "bias_ih", "bias_hh"};

template <size_t N>
bool is_one_of(const std::string& name, const std::array<const char*, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<OpCase> read_cases() {
  const std::string folder = std::string(TELAR_FIXTURES) + "/ops/";
  std::ifstream file(folder + "ops.json");
  const SafetensorsFile tensors(folder + "ops.safetensors");
  std::vector<OpCase> cases;
  for (const auto& entry : nlohmann::json::parse(file)) {
    OpCase read{entry["name"],      entry["op"],         entry["attributes"],
                entry["inputs"],    entry["parameters"], entry["outputs"],
                entry["gradients"], entry["weighted"],   {}};
    for (const auto* names : {&read.inputs, &read.parameters, &read.outputs}) {
      for (const auto& name : *names) read.tensors[name] = tensors.read(read.name + "/" + name);
    }
    for (const auto& name : read.gradients) {
      read.tensors["gradient/" + name] = tensors.read(read.name + "/gradient/" + name);
    }
    cases.push_back(std::move(read));
  }
  return cases;
}

}  // namespace

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = read_cases();
  return cases;
}

std::vector<std::string> op_case_names() {
  std::vector<std::string> names;
  for (const OpCase& known : op_cases()) names.push_back(known.name);
  return names;
}

const OpCase& op_case(const std::string& name) {
  const auto& cases = op_cases();
  const auto found =
      std::find_if(cases.begin(), cases.end(), [&](const OpCase& known) { return known.name == name; });
  if (found == cases.end()) throw run_error("there is no case '{}' in ops.json", name);
  return *found;
}

float weighting(size_t k, size_t i) { return (static_cast<float>((i * 37 + k * 11 + 5) % 17) - 8.0F) / 8.0F; }

CaseGraph build_case(const OpCase& op_case, DType compute) {
  GraphBuilder builder;
  std::map<std::string, ValueId> declared;
  for (const auto& name : op_case.inputs) {
    const DType dtype = is_one_of(name, kIntegers) ? DType::i32 : DType::f32;
    declared[name] = builder.input(name, {dtype, op_case.tensors.at(name).shape}, false);
  }
  for (const auto& name : op_case.parameters) {
    declared[name] = builder.parameter(name, {DType::f32, op_case.tensors.at(name).shape});
  }
  std::map<std::string, ValueId> values = declared;
  for (auto& [name, value] : values) {
    const bool converted = builder.type(value).dtype == DType::f32 && !is_one_of(name, kKeptInF32);
    if (compute == DType::bf16 && converted) value = convert(builder, value, DType::bf16);
  }
  const auto outputs = add_operation(builder, op_case, values);

  CaseGraph built;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::string& name = op_case.outputs[k];
    ValueId y = outputs[k];
    if (builder.type(y).dtype == DType::bf16) y = convert(builder, y, DType::f32);
    builder.output(name, y);
    if (std::find(op_case.weighted.begin(), op_case.weighted.end(), name) == op_case.weighted.end()) continue;
    if (op_case.gradients.empty()) continue;
    const ValueId weights =
        builder.input("weighting/" + std::to_string(k), TensorType(builder.type(y)), false);
    const ValueId part = reduce_sum(builder, mul(builder, y, weights), {});
    built.loss = built.loss == kNoValue ? part : add(builder, built.loss, part);
  }
  for (const auto& name : op_case.gradients) built.wanted.push_back(declared.at(name));
  built.graph = builder.build();
  return built;
}

}  // namespace telar::testing
