#include "ops/op_case.h"
#include "support/paths.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/fuse_activations.h"
#include "telar/graph/mixed_precision.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/reduce.h"

namespace telar::test {

namespace {

constexpr std::array<const char*, 3> kIntegers = {"label", "tokens", "lengths"};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Σ weighting · output over the weighted outputs.
ValueId add_loss(GraphBuilder& builder, const OpCase& op_case, const std::vector<ValueId>& outputs) {
  ValueId loss = kNoValue;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!contains(op_case.weighted, op_case.outputs[k])) continue;
    const TensorType type = builder.type(outputs[k]);
    const ValueId weights = builder.input("weighting/" + std::to_string(k), type, false);
    const ValueId part = reduce_sum(builder, mul(builder, outputs[k], weights), {});
    loss = loss == kNoValue ? part : add(builder, loss, part);
  }
  return loss;
}

std::vector<OpCase> read_cases() {
  const std::string folder = fixtures() + "/ops/";
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

Graph build_case(const OpCase& op_case, Mode mode) {
  GraphBuilder builder;
  std::map<std::string, ValueId> values;
  for (const auto& name : op_case.inputs) {
    const bool integers = std::find(kIntegers.begin(), kIntegers.end(), name) != kIntegers.end();
    const DType dtype = integers ? DType::i32 : DType::f32;
    values[name] = builder.input(name, {dtype, op_case.tensors.at(name).shape}, false);
  }
  for (const auto& name : op_case.parameters) {
    values[name] = builder.parameter(name, {DType::f32, op_case.tensors.at(name).shape});
  }
  const auto outputs = add_operation(builder, op_case, values);
  for (size_t k = 0; k < outputs.size(); ++k) builder.output(op_case.outputs[k], outputs[k]);
  if (!op_case.gradients.empty()) builder.output("weighted sum", add_loss(builder, op_case, outputs));

  Graph graph = builder.build();
  if (mode == Mode::bf16) graph = mixed_precision(graph);
  if (!op_case.gradients.empty()) {
    std::vector<ValueId> wanted;
    for (const auto& name : op_case.gradients) {
      const bool parameter = contains(op_case.parameters, name);
      wanted.push_back(graph.find(parameter ? ValueKind::parameter : ValueKind::input, name));
    }
    graph = differentiate(graph, graph.output("weighted sum"), wanted);
  }
  return mode == Mode::f32 ? graph : fuse_activations(graph);
}

bool computes_in_bf16(const OpCase& op_case) {
  const Graph graph = build_case(op_case, Mode::f32);
  return graph.nodes().front().op->bf16();
}

}  // namespace telar::test
