#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "telar/graph/graph.h"
#include "telar/io/safetensors.h"

namespace telar::test {

using Values = std::map<std::string, NamedTensor>;

/// One case of tests/fixtures/ops: an operation, its inputs, and PyTorch's outputs and gradients.
struct OpCase {
  std::string name;
  std::string op;
  nlohmann::json attributes;
  std::vector<std::string> inputs;
  std::vector<std::string> parameters;
  std::vector<std::string> outputs;
  std::vector<std::string> gradients;  ///< inputs and parameters whose gradient is known
  std::vector<std::string> weighted;   ///< outputs that contribute to the loss
  Values tensors;                      ///< the values of all of these; gradients as "gradient/NAME"
};

const std::vector<OpCase>& op_cases();
std::vector<std::string> op_case_names();
const OpCase& op_case(const std::string& name);

/// The weight of element i of output k in the loss, as in make_ops.py.
float weighting(size_t k, size_t i);

/// How a case is computed: in f32, in f32 with fused activations, or in bf16.
enum class Mode : uint8_t { f32, fused, bf16 };

/// A case as a graph. Its outputs have the names of the case and are f32. If gradients are known, the graph
/// also has those of Σ weighting · output: of inputs as outputs "gradient/NAME", of parameters in buffers.
Graph build_case(const OpCase& op_case, Mode mode);

/// Whether the case's operation is computed in bf16 with `precision: bf16`.
bool computes_in_bf16(const OpCase& op_case);

/// Adds the case's operation to a graph. `values`: its inputs and parameters by name. Returns its outputs in
/// the order of the case. Defined in op_builders.cpp.
std::vector<ValueId> add_operation(GraphBuilder& builder, const OpCase& op_case,
                                   const std::map<std::string, ValueId>& values);

}  // namespace telar::test
