#include "telar/strategy/split_layers.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "telar/core/error.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/convert.h"
#include "telar/graph/ops/embedding.h"
#include "telar/graph/ops/reshape.h"
#include "telar/graph/rewrite.h"

namespace telar {

namespace {

using Bounds = std::vector<int64_t>;

/// The items of whose multiples equal parts are, if their bounds are these.
int64_t unit_of(const Bounds& bounds) {
  if (bounds == equal_parts(bounds.back(), std::ssize(bounds) - 1)) return 1;
  return std::accumulate(bounds.begin(), bounds.end(), int64_t{0}, std::gcd<int64_t, int64_t>);
}

/// The forms that a value of the whole graph has in the graph of a member; each is made when it is needed.
struct Forms {
  ValueId own = kNoValue;    ///< own samples, all features
  ValueId whole = kNoValue;  ///< samples of all members, all features
  ValueId split = kNoValue;  ///< samples of all members, own features; or own items of a vector
  Bounds bounds;             ///< of the features of `split`
  bool divided = false;      ///< computed in the form `split`
};

class Divider {
 public:
  Divider(const Graph& forward, const LayerSplits& layers, const SampleGroup& group)
      : forward_(forward),
        layers_(layers),
        group_(group),
        forms_(forward.values().size()),
        of_samples_(rows_of_samples(forward)) {
    group_.samples = forward.batch();
  }

  DividedGraph run() {
    for (const Node& node : forward_.nodes()) {
      builder_.set_scope(node.scope);
      add(node);
    }
    builder_.set_scope("");
    for (const auto& [name, value] : forward_.outputs()) builder_.output(name, own(value));
    return {builder_.build(), std::move(pieces_), std::move(divisions_)};
  }

 private:
  void add(const Node& node) {
    if (const auto split = split_of(node)) {
      if (looks_up(forward_, node)) {
        add_lookup(node);
      } else {
        *split == LayerSplit::columns ? add_columns(node) : add_rows(node);
      }
    } else if (!add_by_features(node)) {
      std::vector<ValueId> inputs;
      for (const ValueId id : node.inputs) inputs.push_back(own(id));
      const auto outputs = builder_.add(*node.op, std::move(inputs), node.attributes);
      for (size_t i = 0; i < outputs.size(); ++i) forms(node.outputs[i]).own = outputs[i];
    }
  }

  std::optional<LayerSplit> split_of(const Node& node) const {
    if (!node.op->is_weighted_sum(node.attributes) && !looks_up(forward_, node)) return std::nullopt;
    const ValueId weights = weights_of(forward_, node);
    if (weights == kNoValue || !of_samples_[static_cast<size_t>(node.inputs[0])]) return std::nullopt;
    const auto found = layers_.find(forward_.value(weights).name);
    return found == layers_.end() ? std::nullopt : std::optional(found->second);
  }

  void add_columns(const Node& node) {
    const Bounds bounds = parts_of(shape(node.inputs[1])[0], "output features");
    const ValueId weights = part_of_parameter(node.inputs[1], 0, bounds);
    const ValueId bias = node.inputs[2] == kNoValue ? kNoValue : part_of_parameter(node.inputs[2], 0, bounds);
    const ValueId y = builder_.add1(*node.op, {whole(node.inputs[0]), weights, bias}, node.attributes);
    set_divided(node.outputs[0], y, bounds);
  }

  void add_rows(const Node& node) {
    const Forms& x = forms(node.inputs[0]);
    const Bounds bounds = x.divided ? x.bounds : parts_of(shape(node.inputs[1])[1], "input features");
    const ValueId weights = part_of_parameter(node.inputs[1], 1, bounds);
    const ValueId partial =
        builder_.add1(*node.op, {split(node.inputs[0], bounds), weights, kNoValue}, node.attributes);
    const DType dtype = builder_.type(partial).dtype;
    ValueId y = reduce_scatter_samples(builder_, in(partial, DType::f32), group_);
    if (node.inputs[2] != kNoValue) y = add_bias(y, own(node.inputs[2]));
    forms(node.outputs[0]).own = in(y, dtype);
  }

  /// The member looks up the tokens of all samples in its rows of the table; the sum over the members has
  /// each token's row.
  void add_lookup(const Node& node) {
    const int64_t vocabulary = shape(node.inputs[1])[0];
    const Bounds bounds = parts_of(vocabulary, "tokens");
    const ValueId part = part_of_parameter(node.inputs[1], 0, bounds);
    const int64_t first = bounds[static_cast<size_t>(group_.rank)];
    const ValueId found = embedding_of_part(builder_, whole(node.inputs[0]), part, first, vocabulary);
    const DType dtype = builder_.type(found).dtype;
    forms(node.outputs[0]).own = in(reduce_scatter_samples(builder_, in(found, DType::f32), group_), dtype);
  }

  ValueId add_bias(ValueId y, ValueId bias) {
    const TensorType type = builder_.type(y);
    if (type.shape.rank() > 2) {
      std::vector<int64_t> dims(type.shape.rank() - 1, 1);
      dims[0] = type.shape[1];
      bias = reshape(builder_, bias, dims);
    }
    return telar::add(builder_, y, bias);
  }

  /// Computes a node on parts if one of its inputs is divided and its operation and all inputs allow it.
  bool add_by_features(const Node& node) {
    const auto divided = std::find_if(node.inputs.begin(), node.inputs.end(),
                                      [&](ValueId id) { return id != kNoValue && forms(id).divided; });
    if (divided == node.inputs.end()) return false;
    const Bounds bounds = forms(*divided).bounds;
    const auto rank = static_cast<size_t>(group_.rank);
    const auto attributes =
        node.op->for_features(node.attributes, forward_.value(*divided).type, bounds[rank], bounds[rank + 1]);
    if (!attributes || !std::all_of(node.inputs.begin(), node.inputs.end(),
                                    [&](ValueId id) { return has_features(id, bounds); })) {
      return false;
    }
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(features_of(id, bounds));
    const auto outputs = builder_.add(*node.op, std::move(inputs), *attributes);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const int64_t each = features(node.outputs[i]) / bounds.back();
      Bounds scaled = bounds;
      for (int64_t& bound : scaled) bound *= each;
      set_divided(node.outputs[i], outputs[i], scaled);
    }
    return true;
  }

  /// Whether an input of a node that is computed on parts has a part, or needs none.
  bool has_features(ValueId id, const Bounds& bounds) {
    if (id == kNoValue) return true;
    const Value& value = forward_.value(id);
    if (value.kind == ValueKind::input) return value.type.dtype == DType::i32;  // sample ids, random state
    if (forms(id).divided) return forms(id).bounds == bounds;
    if (value.kind != ValueKind::result) return value.type.shape == Shape{bounds.back()};
    return of_samples_[static_cast<size_t>(id)] && value.type.shape.rank() > 1 &&
           value.type.shape[1] == bounds.back();
  }

  ValueId features_of(ValueId id, const Bounds& bounds) {
    if (id == kNoValue) return id;
    const Value& value = forward_.value(id);
    if (value.kind == ValueKind::input) return value.batched ? whole(id) : own(id);
    return value.kind == ValueKind::result ? split(id, bounds) : part_of_parameter(id, 0, bounds);
  }

  /// A part of a parameter, of a buffer of its gradient, or of a parameter converted to another type.
  ValueId part_of_parameter(ValueId id, size_t axis, const Bounds& bounds) {
    const Value& value = forward_.value(id);
    if (value.kind == ValueKind::result) {
      const Node& node = forward_.nodes()[static_cast<size_t>(value.node)];
      return in(part_of_parameter(node.inputs[0], axis, bounds), value.type.dtype);
    }
    const auto rank = static_cast<size_t>(group_.rank);
    const Piece piece{value.name, value.type.shape, bounds[rank], bounds[rank + 1], axis};
    pieces_.emplace(value.name, piece);
    divisions_[value.name] = {axis, unit_of(bounds)};
    Value part = value;
    part.type.shape = piece.piece_shape();
    return builder_.declare(part);
  }

  ValueId own(ValueId id) {
    if (id == kNoValue) return id;
    Forms& value = forms(id);
    if (value.own == kNoValue) value.own = make_own(id);
    return value.own;
  }

  ValueId make_own(ValueId id) {
    const Value& value = forward_.value(id);
    if (value.kind != ValueKind::result) return builder_.declare(value);
    const ValueId exchanged =
        features_to_samples(builder_, in(forms(id).split, DType::f32), group_, forms(id).bounds);
    return in(exchanged, value.type.dtype);
  }

  ValueId whole(ValueId id) {
    Forms& value = forms(id);
    if (value.whole == kNoValue) {
      const TensorType& type = forward_.value(id).type;
      const ValueId samples = type.dtype == DType::i32 ? own(id) : in(own(id), DType::f32);
      value.whole = in(all_gather_samples(builder_, samples, group_), type.dtype);
    }
    return value.whole;
  }

  ValueId split(ValueId id, const Bounds& bounds) {
    Forms& value = forms(id);
    if (value.split == kNoValue) {
      value.bounds = bounds;
      value.split = in(samples_to_features(builder_, in(own(id), DType::f32), group_, bounds),
                       forward_.value(id).type.dtype);
    }
    if (value.bounds != bounds)
      throw run_error("layer '{}': a value is divided in two ways", builder_.scope());
    return value.split;
  }

  /// The value in another type; members exchange f32.
  ValueId in(ValueId value, DType dtype) {
    return builder_.type(value).dtype == dtype ? value : convert(builder_, value, dtype);
  }

  void set_divided(ValueId id, ValueId split, const Bounds& bounds) {
    Forms& value = forms(id);
    value.split = split;
    value.bounds = bounds;
    value.divided = true;
  }

  Bounds parts_of(int64_t extent, const char* which) const {
    if (extent < group_.members) {
      throw user_error(
          "layer '{}' has {} {}, which cannot be divided among {} workers; leave it out of strategy.split, or use fewer",
          builder_.scope(), extent, which, group_.members);
    }
    return equal_parts(extent, group_.members);
  }

  int64_t features(ValueId id) const {
    const Shape& extents = shape(id);
    return extents.rank() > 1 ? extents[1] : extents[0];
  }
  const Shape& shape(ValueId id) const { return forward_.value(id).type.shape; }
  Forms& forms(ValueId id) { return forms_[static_cast<size_t>(id)]; }

  const Graph& forward_;
  const LayerSplits& layers_;
  SampleGroup group_;
  std::vector<Forms> forms_;
  std::vector<bool> of_samples_;
  Pieces pieces_;
  Divisions divisions_;
  GraphBuilder builder_;
};

}  // namespace

std::vector<bool> rows_of_samples(const Graph& forward) {
  const Graph twice = forward.with_batch(2 * forward.batch());
  std::vector<bool> all;
  for (size_t i = 0; i < forward.values().size(); ++i) {
    const Shape& once = forward.values()[i].type.shape;
    all.push_back(once.rank() > 0 && twice.values()[i].type.shape[0] == 2 * once[0]);
  }
  return all;
}

bool looks_up(const Graph& graph, const Node& node) {
  return node.op->index_count(graph.input_types(node)) > 0;
}

ValueId weights_of(const Graph& graph, const Node& node) {
  ValueId weights = node.inputs[1];
  if (graph.value(weights).kind == ValueKind::result) {
    const Node& made = graph.nodes()[static_cast<size_t>(graph.value(weights).node)];
    if (made.op->name() != "convert") return kNoValue;
    weights = made.inputs[0];
  }
  return graph.value(weights).kind == ValueKind::parameter ? weights : kNoValue;
}

DividedGraph divide_layers(const Graph& forward, const LayerSplits& layers, const SampleGroup& group) {
  return Divider(forward, layers, group).run();
}

}  // namespace telar
