#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "telar/graph/graph.h"
#include "telar/io/safetensors.h"

namespace telar::testing {

using Values = std::map<std::string, NamedTensor>;

/// One case of tests/fixtures/ops: an operation, what goes in, and PyTorch's outputs and gradients.
struct OpCase {
  std::string name;
  std::string op;
  nlohmann::json attributes;
  std::vector<std::string> inputs;
  std::vector<std::string> parameters;
  std::vector<std::string> outputs;
  std::vector<std::string> gradients;  ///< inputs and parameters whose gradient is known
  std::vector<std::string> weighted;   ///< outputs that take part in the loss
  Values tensors;                      ///< of all of these; gradients as "gradient/NAME"
};

const std::vector<OpCase>& op_cases();
std::vector<std::string> op_case_names();
const OpCase& op_case(const std::string& name);

/// The weight of element i of output k in the loss, as make_ops.py has it.
float weighting(size_t k, size_t i);

/// A case as a graph. In bf16 every f32 tensor but biases, scales and statistics is converted first. Outputs are named as
/// in the case and are f32; the loss is Σ weighting · output, or −1 where the case has no gradients.
struct CaseGraph {
  Graph graph;
  ValueId loss = kNoValue;
  std::vector<ValueId> wanted;  ///< in the order of OpCase::gradients
};
CaseGraph build_case(const OpCase& op_case, DType compute);

/// Adds the case's operation to a graph. Defined in op_builders.cpp. `values` are its inputs and parameters by name;
/// returns its outputs in the case's order.
std::vector<ValueId> add_operation(GraphBuilder& builder, const OpCase& op_case,
                                   const std::map<std::string, ValueId>& values);

}  // namespace telar::testing
