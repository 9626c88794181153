#include "python/native/index_limits.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "telar/core/error.h"

namespace telar::python {

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// An element of a sample of an input, or a number that the graph computes.
struct Origin {
  const std::string* input = nullptr;  ///< null: the graph computes it
  int64_t element = 0;
};

/// For the integers of a graph for one sample: of which input elements they are copies.
class Origins {
 public:
  explicit Origins(const Graph& graph) : graph_(graph), of_(graph.values().size()) {
    for (size_t v = 0; v < of_.size(); ++v) {
      const Value& value = graph.values()[v];
      if (value.kind != ValueKind::input || value.type.dtype != DType::i32) continue;
      for (int64_t i = 0; i < value.type.shape.elements(); ++i) of_[v].push_back({&value.name, i});
    }
    for (const Node& node : graph.nodes())
      if (!node.outputs.empty() && is_integer(node.outputs[0])) trace(node);
  }

  const std::vector<Origin>& of(ValueId id) const { return of_[static_cast<size_t>(id)]; }

 private:
  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }
  bool is_integer(ValueId id) const { return graph_.value(id).type.dtype == DType::i32; }
  std::vector<Origin>& at(ValueId id) { return of_[static_cast<size_t>(id)]; }

  void trace(const Node& node) {
    const std::string_view name = node.op->name();
    if (node.op->is_view()) {
      at(node.outputs[0]) = of(node.inputs[0]);
    } else if (name == "split") {
      move_parts(node.outputs, node.inputs[0], node, [&](Origin& whole, Origin& part) { part = whole; });
    } else if (name == "concat") {
      move_parts(node.inputs, node.outputs[0], node, [&](Origin& whole, Origin& part) { whole = part; });
    } else if (name == "transpose") {
      transpose(node);
    } else if (name == "order" || name == "to_indices") {
      at(node.outputs[0]).resize(static_cast<size_t>(shape(node.outputs[0]).elements()));
    } else {
      throw run_error("the integers of {} cannot be traced to the inputs", name);
    }
  }

  /// Calls move(element of whole, element of part) for consecutive parts along the node's axis.
  template <typename Move>
  void move_parts(const std::vector<ValueId>& parts, ValueId whole, const Node& node, const Move& move) {
    const auto axis = static_cast<size_t>(node.attributes.integer("axis"));
    at(whole).resize(static_cast<size_t>(shape(whole).elements()));
    int64_t inner = 1;
    for (size_t i = axis + 1; i < shape(whole).rank(); ++i) inner *= shape(whole)[i];
    const int64_t pitch = shape(whole)[axis] * inner;
    int64_t begin = 0;
    for (const ValueId part : parts) {
      const int64_t length = shape(part)[axis] * inner;
      at(part).resize(static_cast<size_t>(shape(part).elements()));
      for (int64_t i = 0; i < shape(part).elements(); ++i)
        move(at(whole)[static_cast<size_t>(i / length * pitch + begin + i % length)],
             at(part)[static_cast<size_t>(i)]);
      begin += length;
    }
  }

  void transpose(const Node& node) {
    const Shape& x = shape(node.inputs[0]);
    const Shape& y = shape(node.outputs[0]);
    const auto& permutation = node.attributes.integers("permutation");
    std::vector<int64_t> steps(x.rank(), 1);
    for (size_t i = x.rank(); i-- > 1;) steps[i - 1] = steps[i] * x[i];
    at(node.outputs[0]).resize(static_cast<size_t>(y.elements()));
    for (int64_t i = 0; i < y.elements(); ++i) {
      int64_t from = 0;
      int64_t rest = i;
      for (size_t axis = y.rank(); axis-- > 0; rest /= y[axis])
        from += rest % y[axis] * steps[static_cast<size_t>(permutation[axis])];
      at(node.outputs[0])[static_cast<size_t>(i)] = of(node.inputs[0])[static_cast<size_t>(from)];
    }
  }

  const Graph& graph_;
  std::vector<std::vector<Origin>> of_;
};

void lower_limits(const std::vector<Origin>& origins, int64_t limit, IndexLimits& limits) {
  for (const Origin& origin : origins) {
    if (origin.input == nullptr) continue;
    auto& of_input = limits[*origin.input];
    const auto element = static_cast<size_t>(origin.element);
    if (of_input.size() <= element) of_input.resize(element + 1, kNoLimit);
    of_input[element] = std::min(of_input[element], limit);
  }
}

}  // namespace

IndexLimits index_limits(const ModelGraphs& graphs) {
  IndexLimits limits;
  for (const Graph* graph : {&graphs.training, &graphs.evaluation, &graphs.prediction}) {
    const Graph of_one = graph->with_batch(1);
    const Origins origins(of_one);
    for (const Node& node : of_one.nodes()) {
      const auto types = of_one.input_types(node);
      if (const int64_t tokens = node.op->index_count(types); tokens > 0)
        lower_limits(origins.of(node.inputs[0]), tokens, limits);
      if (const int64_t labels = node.op->label_count(types); labels > 0)
        lower_limits(origins.of(node.inputs[1]), labels, limits);
    }
  }
  return limits;
}

}  // namespace telar::python
