#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "telar/graph/graph.h"
#include "telar/io/safetensors.h"

namespace telar::test {

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

/// How a case is computed.
enum class Mode : uint8_t { f32, fused, bf16 };

/// A case as a graph. Outputs are named as in the case and are f32. Where gradients are known, those of
/// Σ weighting · output stand behind: of inputs as outputs "gradient/NAME", of parameters in buffers.
Graph build_case(const OpCase& op_case, Mode mode);

/// Whether the case's operation computes in bf16 under `precision: bf16`.
bool computes_in_bf16(const OpCase& op_case);

/// Adds the case's operation to a graph. Defined in op_builders.cpp. `values` are its inputs and parameters by name;
/// returns its outputs in the case's order.
std::vector<ValueId> add_operation(GraphBuilder& builder, const OpCase& op_case,
                                   const std::map<std::string, ValueId>& values);

}  // namespace telar::test
