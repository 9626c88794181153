#include "telar/graph/mixed_precision.h"

#include <map>
#include <utility>

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

/// Whether the operation reads such an operand in bf16.
bool computes_in_bf16(const Op& op, const TensorType& type) {
  if (!op.bf16() || (type.dtype != DType::f32 && type.dtype != DType::bf16)) return false;
  return type.shape.rank() != 1 || op.bf16_vectors();
}

}  // namespace

Graph mixed_precision(const Graph& forward) {
  Converter converter;
  const Graph converted = rewrite_nodes(forward, [&](GraphBuilder& builder, const Node& node, Remap& remap) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId old = node.inputs[i];
      if (old == kNoValue || !node.op->reads_values(i)) continue;
      const TensorType type = builder.type(remap(old));
      if (type.dtype != DType::f32 && type.dtype != DType::bf16) continue;
      remap.set(old,
                converter(builder, remap(old), computes_in_bf16(*node.op, type) ? DType::bf16 : DType::f32));
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
