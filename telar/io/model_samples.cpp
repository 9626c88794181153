#include "telar/io/model_samples.h"

#include <algorithm>
#include <set>

#include "telar/core/error.h"

namespace telar {

namespace {

/// No other extent of a graph is likely to be a multiple of it.
constexpr int64_t kTracedBatch = 10007;

/// How a value depends on the samples of a batch.
struct Dependence {
  enum class Kind : uint8_t {
    none,
    rows,  ///< `axis` counts the samples, or equally many items of each, in order; `outer` times over
    sum,   ///< a sum over the samples
    mixed  ///< anything else
  };
  Kind kind = Kind::none;
  size_t axis = 0;    ///< rows
  int64_t outer = 1;  ///< rows: how often the samples come one after another, as when [T, N] becomes [T · N]
  bool operator==(const Dependence&) const = default;
};

using Kind = Dependence::Kind;

constexpr Dependence kNone{};
constexpr Dependence kRows{Kind::rows};
constexpr Dependence kSum{Kind::sum};
constexpr Dependence kMixed{Kind::mixed};

const std::set<std::string_view> kFirstAxisIsTheBatch = {
    "linear",       "conv2d", "conv2d_backward_data", "max_pool",   "average_pool",         "embedding",
    "lstm",         "gru",    "layer_norm",           "batch_norm", "batch_norm_inference", "dropout",
    "random_normal"};
/// Of these, those that compute each item of axis 0 by itself, whatever sample it belongs to.
const std::set<std::string_view> kOfEachItem = {"linear", "layer_norm", "embedding"};
const std::set<std::string_view> kSums = {"cross_entropy", "mean_squared_error", "top_k_correct"};
const std::set<std::string_view> kBroadcasting = {"add", "mul"};
const std::set<std::string_view> kOfEachElement = {
    "scale", "exp",   "log", "sin",   "cos",    "atan",          "erf",        "log1p",     "expm1",
    "floor", "round", "pow", "clamp", "within", "stop_gradient", "to_indices", "to_numbers"};

class SampleTrace {
 public:
  SampleTrace(const Graph& graph, bool training)
      : graph_(graph), training_(training), of_(graph.values().size()) {
    for (size_t v = 0; v < of_.size(); ++v)
      if (graph.values()[v].kind == ValueKind::input && graph.values()[v].batched) of_[v] = kRows;
    for (const Node& node : graph.nodes()) {
      for (const ValueId output : node.outputs) of_[static_cast<size_t>(output)] = result(node);
      if (node.outputs.size() > 1) correct_others(node);
    }
  }

  const Dependence& of(ValueId id) const { return of_[static_cast<size_t>(id)]; }

 private:
  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }
  const Shape& result_shape(const Node& node) const { return shape(node.outputs[0]); }

  /// Of the first output.
  Dependence result(const Node& node) const {
    const std::string_view name = node.op->name();
    if (name == "constant") return kNone;
    if (name == "batch_norm" && !training_) return kMixed;
    if (name == "fill") return of(node.inputs[0]) == kRows ? kRows : kMixed;
    if (std::all_of(node.inputs.begin(), node.inputs.end(),
                    [&](ValueId id) { return id == kNoValue || of(id) == kNone; }))
      return kNone;
    if (kOfEachItem.contains(name) && of(node.inputs[0]) != kRows) return of_items(node);
    if (kFirstAxisIsTheBatch.contains(name)) return of_rows(node, 1);
    if (kSums.contains(name)) return of_pairs(node).kind == Kind::rows ? kSum : kMixed;
    if (name == "cross_entropy_of_rows") return of_pairs(node);
    if (kBroadcasting.contains(name)) return broadcast(node);
    if (name == "scale") return of(node.inputs[0]);
    if (kOfEachElement.contains(name) || node.op->is_activation()) return of_each_element(node);
    if (name == "softmax" || name == "split" || name == "order")
      return along(of(node.inputs[0]), node.attributes.integer("axis"));
    if (name == "gather") return gathered(node, of(node.inputs[0]), of(node.inputs[1]));
    if (name == "scatter_add") return gathered(node, of(node.inputs[1]), of(node.inputs[0]));
    if (name == "concat") return concat(node);
    if (name == "matmul") return matmul(node);
    if (name == "reshape") return reshape(node);
    if (name == "transpose") return transpose(node);
    if (name == "reduce_sum" || name == "reduce_mean" || name == "reduce_max") return reduce(node);
    return kMixed;
  }

  /// Statistics and what operations keep for their gradients must not reach a loss: they have no gradient.
  void correct_others(const Node& node) {
    const std::string_view name = node.op->name();
    if (name == "split" || name == "lstm" || name == "gru") return;
    for (size_t i = 1; i < node.outputs.size(); ++i) of_[static_cast<size_t>(node.outputs[i])] = kMixed;
  }

  /// The first `batched` inputs have the samples in axis 0, and no other input depends on them (lengths of
  /// sequences, their initial states and sample ids do, one for each).
  Dependence of_rows(const Node& node, size_t batched) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue) continue;
      const bool state = i > 5 && (node.op->name() == "lstm" || node.op->name() == "gru");
      const bool of_samples = i < batched || state || graph_.value(id).type.dtype == DType::i32;
      if (of(id) != kRows && !(of(id) == kNone && !(i < batched))) return kMixed;
      if (of(id) == kRows && !of_samples) return kMixed;
    }
    return kRows;
  }

  /// Both inputs have the samples in axis 0, in the same order.
  Dependence of_pairs(const Node& node) const {
    const Dependence first = of(node.inputs[0]);
    const bool alike = first.outer > 1 && first.axis == 0 && first == of(node.inputs[1]);
    return alike ? first : of_rows(node, 2);
  }

  /// Input 0 alone depends on the samples. An embedding has any axis of it, the others all but the last.
  Dependence of_items(const Node& node) const {
    for (size_t i = 1; i < node.inputs.size(); ++i)
      if (node.inputs[i] != kNoValue && of(node.inputs[i]) != kNone) return kMixed;
    const Dependence x = of(node.inputs[0]);
    const size_t axes = shape(node.inputs[0]).rank() - (node.op->name() == "embedding" ? 0 : 1);
    return x.kind == Kind::rows && x.axis < axes ? x : kMixed;
  }

  Dependence of_each_element(const Node& node) const {
    const Dependence x = of(node.inputs[0]);
    return x.kind == Kind::sum ? kMixed : x;
  }

  /// Axes are aligned at the last.
  Dependence broadcast(const Node& node) const {
    const Dependence a = of(node.inputs[0]);
    const Dependence b = of(node.inputs[1]);
    if (a.kind == Kind::sum || b.kind == Kind::sum) {
      if (node.op->name() == "add") return a == b ? kSum : kMixed;
      return a == kNone || b == kNone ? kSum : kMixed;
    }
    Dependence found = kNone;
    for (const ValueId id : node.inputs) {
      Dependence x = of(id);
      if (x.kind == Kind::none) continue;
      if (x.kind != Kind::rows) return kMixed;
      x.axis += result_shape(node).rank() - shape(id).rank();
      if (found != kNone && found != x) return kMixed;
      found = x;
    }
    return result_shape(node)[found.axis] % kTracedBatch == 0 ? found : kMixed;
  }

  /// Nothing passes between samples if the axis is another one.
  static Dependence along(const Dependence& x, int64_t axis) {
    return x.kind == Kind::rows && x.axis != static_cast<size_t>(axis) ? x : kMixed;
  }

  Dependence concat(const Node& node) const {
    for (const ValueId id : node.inputs)
      if (of(id) != of(node.inputs[0])) return kMixed;
    return along(of(node.inputs[0]), node.attributes.integer("axis"));
  }

  /// Numbers are moved along an axis by indices of the same sample, or by those that all samples have.
  static Dependence gathered(const Node& node, const Dependence& numbers, const Dependence& indices) {
    return indices == kNone || indices == numbers ? along(numbers, node.attributes.integer("axis")) : kMixed;
  }

  Dependence matmul(const Node& node) const {
    const Dependence a = of(node.inputs[0]);
    const Dependence b = of(node.inputs[1]);
    const size_t matrix =
        result_shape(node).rank() - 2;  // the axes before it are those of the batch of matrices
    const bool of_rows =
        a.kind == Kind::rows && b == kNone && a.axis == matrix && !node.attributes.flag("transpose_a");
    if (of_rows) return a;
    return a.kind == Kind::rows && a.axis < matrix && a == b ? a : kMixed;
  }

  /// The axis that has the samples, after as many items as before.
  Dependence reshape(const Node& node) const {
    const Dependence x = of(node.inputs[0]);
    if (x.kind == Kind::sum) return result_shape(node).elements() == 1 ? kSum : kMixed;
    if (x.kind != Kind::rows) return kMixed;
    int64_t before = x.outer;
    for (size_t i = 0; i < x.axis; ++i) before *= shape(node.inputs[0])[i];
    int64_t items = 1;
    for (size_t i = 0; i < result_shape(node).rank() && before % items == 0; ++i) {
      const int64_t extent = result_shape(node)[i];
      const int64_t outer = before / items;
      if (extent % (outer * kTracedBatch) == 0) return {Kind::rows, i, outer};
      items *= extent;
    }
    return kMixed;
  }

  Dependence transpose(const Node& node) const {
    const Dependence x = of(node.inputs[0]);
    if (x.kind != Kind::rows) return kMixed;
    const auto& permutation = node.attributes.integers("permutation");
    const auto axis = std::find(permutation.begin(), permutation.end(), static_cast<int64_t>(x.axis));
    return {Kind::rows, static_cast<size_t>(axis - permutation.begin()), x.outer};
  }

  Dependence reduce(const Node& node) const {
    const Dependence x = of(node.inputs[0]);
    const bool sums = node.op->name() == "reduce_sum";
    if (x.kind == Kind::sum) return sums ? kSum : kMixed;
    if (x.kind != Kind::rows) return kMixed;
    const auto& axes = node.attributes.integers("axes");
    const auto batch = static_cast<int64_t>(x.axis);
    if (std::find(axes.begin(), axes.end(), batch) != axes.end()) return sums ? kSum : kMixed;
    if (node.attributes.flag("keep_dims")) return x;
    const auto removed = std::count_if(axes.begin(), axes.end(), [&](int64_t axis) { return axis < batch; });
    return {Kind::rows, x.axis - static_cast<size_t>(removed), x.outer};
  }

  const Graph& graph_;
  bool training_;
  std::vector<Dependence> of_;
};

}  // namespace

void require_sums_over_samples(const Graph& graph, bool training, const std::string& source) {
  const Graph traced = graph.with_batch(kTracedBatch);
  const SampleTrace trace(traced, training);
  for (const Node& node : traced.nodes()) {
    if (!node.op->has_effect() || traced.value(node.inputs[0]).kind != ValueKind::metric) continue;
    if (trace.of(node.inputs[1]) != kSum)
      throw user_error(
          "{}: what is added to the metric '{}' cannot be shown to be a sum over the samples, so it may depend on how a batch is divided; sum over axis 0, and leave the division by the number of samples to the training",
          source, traced.value(node.inputs[0]).name);
  }
  for (const auto& [name, id] : traced.outputs()) {
    if (trace.of(id) != kRows)
      throw user_error("{}: the output '{}' cannot be shown to be computed of each sample alone, in axis 0",
                       source, name);
  }
}

}  // namespace telar
