#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "telar/graph/op.h"

namespace telar {

/// Origin and role of a value. Gradients, metrics and optimizer state are buffers: long-lived memory that
/// operations with an effect write.
enum class ValueKind : uint8_t {
  input,      ///< passed at each run: samples, labels, sample ids, random state, learning rate
  parameter,  ///< long-lived state, read by the graph, with a logical name ("layer1.0.conv1.weight")
  gradient,  ///< of a parameter: the sum over samples of its gradient; of a running statistic: of the batch's
  metric,    ///< sum over samples of the loss or of a metric
  optimizer_state,  ///< of a parameter; it may have several, by slot
  result            ///< the output of a node
};

/// "input", "parameter", "buffer" or "result", as graphs are printed.
const char* text_of(ValueKind kind);

/// The slots of optimizer state are known by these names: "momentum", "adam_m".
using SlotName = std::string;

struct Value {
  std::string name;  ///< logical name of an input or parameter; of a buffer, that of its parameter or metric
  TensorType type = {};
  ValueKind kind = ValueKind::result;
  bool batched = false;  ///< inputs only: axis 0 is the batch
  int node = -1;         ///< results only: index of the node that produces it
  SlotName slot = {};    ///< optimizer state only

  bool is_buffer() const;
  /// Whether it is a parameter, or the gradient or optimizer state of one.
  bool is_of_parameter() const;
  /// Its name, for people: of buffers, buffer_text(); empty for results.
  std::string text() const;
};

struct Node {
  const Op* op = nullptr;
  Attributes attributes;
  std::vector<ValueId> inputs;  ///< kNoValue for an optional input that is absent
  std::vector<ValueId> outputs;
  std::string scope;  ///< the layer that it belongs to, for messages and profiles: "layer1.0.conv1"
};

/// Values and operations, in an order in which the operations can run. Immutable: a pass takes a graph and
/// returns another.
class Graph {
 public:
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<std::pair<std::string, ValueId>>& outputs() const { return outputs_; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }

  /// The value of an output, or of an input, parameter or buffer by kind and name. Throws Error (run) when
  /// there is none. `slot`: of optimizer state.
  ValueId output(const std::string& name) const;
  ValueId find(ValueKind kind, const std::string& name, const SlotName& slot = {}) const;
  bool has(ValueKind kind, const std::string& name, const SlotName& slot = {}) const;
  std::vector<ValueId> of_kind(ValueKind kind) const;

  /// Types of a node's inputs (an absent one has rank 0) and outputs.
  std::vector<TensorType> input_types(const Node& node) const;
  std::vector<TensorType> output_types(const Node& node) const;

  /// For each value, the indices of the nodes that read it.
  std::vector<std::vector<int>> uses() const;

  /// The same graph for another batch size: replaces axis 0 of every batched input and infers all types
  /// again. `rows`: for a graph that exchanges samples, the batch size of each member of the group; empty:
  /// that of this graph for all.
  Graph with_batch(int64_t batch, const std::vector<int64_t>& rows = {}) const;
  /// Extent of axis 0 of the batched inputs. Throws Error (run) when there are none.
  int64_t batch() const;

  /// One line per value and node; equal graphs have equal text, so passes are tested on it.
  std::string str() const;

 private:
  friend class GraphBuilder;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<std::pair<std::string, ValueId>> outputs_;
};

/// Builds a graph node by node. Passes also write their results with it.
class GraphBuilder {
 public:
  GraphBuilder() = default;
  /// Starts from a copy: values keep their ids.
  explicit GraphBuilder(Graph start) : graph_(std::move(start)) {}

  /// Declares an input; `batched`: axis 0 is the batch. A second declaration of the same name and type
  /// returns the same input; with another type it throws Error (user).
  /// These and add() throw Error (user) for a tensor that no process can address.
  ValueId input(const std::string& name, const TensorType& type, bool batched);
  ValueId parameter(const std::string& name, const TensorType& type);
  /// The buffers of a parameter; the name is the parameter's.
  ValueId gradient(const std::string& name, const TensorType& type);
  ValueId optimizer_state(const SlotName& slot, const std::string& name, const TensorType& type);
  /// The buffer of a metric, f32 [values]. Of several values, each has a name in TrainingStep::metrics, this
  /// one and those after it.
  ValueId metric(const std::string& name, int64_t values = 1);
  /// Declares an input, parameter or buffer like this one, of another graph.
  ValueId declare(const Value& value);

  /// Adds a node and infers the types of its outputs; a shape error names the scope.
  std::vector<ValueId> add(const Op& op, std::vector<ValueId> inputs, Attributes attributes = {});
  /// For operations with one output.
  ValueId add1(const Op& op, std::vector<ValueId> inputs, Attributes attributes = {});

  void output(const std::string& name, ValueId value);
  void clear_outputs() { graph_.outputs_.clear(); }

  TensorType type(ValueId value) const { return graph_.value(value).type; }
  const Graph& graph() const { return graph_; }
  Graph build() { return std::move(graph_); }

  /// Name of the layer under construction. Scopes nest: "layer1", then "0" gives "layer1.0".
  const std::string& scope() const { return scope_; }
  void set_scope(std::string scope) { scope_ = std::move(scope); }

 private:
  Graph graph_;
  std::string scope_;
};

/// Enters a sub-scope of the builder for the lifetime of the object.
class ScopeGuard {
 public:
  ScopeGuard(GraphBuilder& builder, const std::string& name) : builder_(builder), outer_(builder.scope()) {
    builder.set_scope(outer_.empty() ? name : outer_ + "." + name);
  }
  ~ScopeGuard() { builder_.set_scope(outer_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  GraphBuilder& builder_;
  std::string outer_;
};

}  // namespace telar
