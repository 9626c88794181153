#include "telar/graph/ops/random_inputs.h"

#include <algorithm>
#include <bit>
#include <string>

#include "telar/core/error.h"
#include "telar/core/random.h"

namespace telar {

void check_random_inputs(std::string_view op, int64_t samples, const TensorType& sample,
                         const TensorType& random) {
  if (sample != TensorType{DType::i32, {samples, 2}})
    throw user_error(
        "{}: sample ids are {} for {} samples; they must be i32 [N, 2], two words for each sample", op,
        sample.str(), samples);
  if (random != TensorType{DType::i32, {4}})
    throw user_error("{}: the random state is {}; it must be i32 [4]", op, random.str());
}

int64_t next_stream(const GraphBuilder& builder, const Op& op) {
  const auto& nodes = builder.graph().nodes();
  const auto earlier = std::count_if(nodes.begin(), nodes.end(), [&](const Node& node) {
    return node.op == &op && node.scope == builder.scope();
  });
  std::string name = builder.scope() + "." + std::string(op.name());
  if (earlier > 0) name += std::to_string(earlier);
  return std::bit_cast<int64_t>(stream_of(name.data(), name.size()));
}

}  // namespace telar
