#include "telar/graph/mixed_precision.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "telar/graph/ops/convert.h"
#include "telar/graph/rewrite.h"

namespace telar {

namespace {

/// Converts values on demand, each at most once.
class Converter {
 public:
  ValueId operator()(GraphBuilder& builder, ValueId value, DType to) {
    if (value == kNoValue || builder.type(value).dtype == to) return value;
    const auto known = done_.find({value, to});
    if (known != done_.end()) return known->second;
    const DType from = builder.type(value).dtype;
    const ValueId converted = convert(builder, value, to);
    done_[{converted, from}] = value;  // converting back yields the original value
    return done_[{value, to}] = converted;
  }

 private:
  std::map<std::pair<ValueId, DType>, ValueId> done_;
};

/// The nodes that compute with whole numbers, and stay in f32: where a position, a label or a count would be
/// rounded, a comparison of two would say another thing.
std::vector<bool> with_whole_numbers(const Graph& graph) {
  const std::vector<Node>& nodes = graph.nodes();
  std::vector<bool> found(nodes.size()), comes(graph.values().size()), goes(graph.values().size());
  const auto any = [](const std::vector<ValueId>& values, const std::vector<bool>& marked) {
    return std::ranges::any_of(
        values, [&](ValueId value) { return value != kNoValue && marked[static_cast<size_t>(value)]; });
  };
  const auto mark = [](const std::vector<ValueId>& values, std::vector<bool>& marked) {
    for (const ValueId value : values)
      if (value != kNoValue) marked[static_cast<size_t>(value)] = true;
  };
  for (size_t n = 0; n < nodes.size(); ++n) {
    const WholeNumbers part = nodes[n].op->whole_numbers();
    found[n] = part == WholeNumbers::keeps && any(nodes[n].inputs, comes);
    if (found[n] || part == WholeNumbers::begins) mark(nodes[n].outputs, comes);
  }
  for (size_t n = nodes.size(); n-- > 0;) {
    const WholeNumbers part = nodes[n].op->whole_numbers();
    const bool compared = part == WholeNumbers::keeps && any(nodes[n].outputs, goes);
    if (compared) found[n] = true;
    if (compared || part == WholeNumbers::ends) mark(nodes[n].inputs, goes);
  }
  return found;
}

/// Whether the operation reads such an operand in bf16.
bool computes_in_bf16(const Op& op, const TensorType& type) {
  if (!op.bf16() || (type.dtype != DType::f32 && type.dtype != DType::bf16)) return false;
  return type.shape.rank() != 1 || op.bf16_vectors();
}

}  // namespace

Graph mixed_precision(const Graph& forward) {
  Converter converter;
  const std::vector<bool> in_f32 = with_whole_numbers(forward);
  const Graph converted = rewrite_nodes(forward, [&](GraphBuilder& builder, const Node& node, Remap& remap) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId old = node.inputs[i];
      if (old == kNoValue || !node.op->reads_values(i)) continue;
      const TensorType type = builder.type(remap(old));
      if (type.dtype != DType::f32 && type.dtype != DType::bf16) continue;
      const bool bf16 =
          computes_in_bf16(*node.op, type) && !in_f32[static_cast<size_t>(&node - forward.nodes().data())];
      remap.set(old, converter(builder, remap(old), bf16 ? DType::bf16 : DType::f32));
    }
    copy_node(builder, node, remap);
  });
  // Convert the outputs to f32.
  GraphBuilder builder(converted);
  builder.clear_outputs();
  for (const auto& [name, value] : converted.outputs()) {
    builder.output(name, converter(builder, value, DType::f32));
  }
  return builder.build();
}

}  // namespace telar
