#include "telar/graph/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "telar/core/error.h"
#include "telar/graph/buffer_text.h"

namespace telar {

const char* text_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::input: return "input";
    case ValueKind::parameter: return "parameter";
    case ValueKind::gradient:
    case ValueKind::metric:
    case ValueKind::optimizer_state: return "buffer";
    case ValueKind::result: break;
  }
  return "result";
}

bool Value::is_buffer() const {
  return kind == ValueKind::gradient || kind == ValueKind::metric || kind == ValueKind::optimizer_state;
}

bool Value::is_of_parameter() const {
  return kind == ValueKind::parameter || kind == ValueKind::gradient || kind == ValueKind::optimizer_state;
}

std::string Value::text() const { return is_buffer() ? buffer_text(kind, name, slot) : name; }

int64_t TensorType::bytes() const {
  constexpr int64_t kAddressSpace = int64_t{1} << 47;
  std::vector<int64_t> factors = shape.dims();
  factors.push_back(static_cast<int64_t>(size_of(dtype)));
  const auto bytes = product_within_int64(factors);
  if (bytes && *bytes <= kAddressSpace) return *bytes;
  throw user_error("a tensor of {} is larger than the memory that any process can address", str());
}

std::string TensorType::str() const { return fmt::format("{} {}", name_of(dtype), shape.str()); }

ValueId Graph::output(const std::string& name) const {
  for (const auto& [output_name, id] : outputs_) {
    if (output_name == name) return id;
  }
  throw run_error("the graph has no output '{}'", name);
}

ValueId Graph::find(ValueKind kind, const std::string& name, const SlotName& slot) const {
  for (size_t i = 0; i < values_.size(); ++i) {
    const Value& value = values_[i];
    if (value.kind == kind && value.name == name && value.slot == slot) return static_cast<ValueId>(i);
  }
  throw run_error("the graph has no value '{}' of the requested kind", name);
}

bool Graph::has(ValueKind kind, const std::string& name, const SlotName& slot) const {
  return std::any_of(values_.begin(), values_.end(),
                     [&](const Value& v) { return v.kind == kind && v.name == name && v.slot == slot; });
}

std::vector<ValueId> Graph::of_kind(ValueKind kind) const {
  std::vector<ValueId> ids;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].kind == kind) ids.push_back(static_cast<ValueId>(i));
  }
  return ids;
}

std::vector<TensorType> Graph::input_types(const Node& node) const {
  std::vector<TensorType> types;
  for (const ValueId id : node.inputs) types.push_back(id == kNoValue ? TensorType{} : value(id).type);
  return types;
}

std::vector<TensorType> Graph::output_types(const Node& node) const {
  std::vector<TensorType> types;
  for (const ValueId id : node.outputs) types.push_back(value(id).type);
  return types;
}

std::vector<std::vector<int>> Graph::uses() const {
  std::vector<std::vector<int>> uses(values_.size());
  for (size_t n = 0; n < nodes_.size(); ++n) {
    for (const ValueId id : nodes_[n].inputs) {
      if (id != kNoValue) uses[static_cast<size_t>(id)].push_back(static_cast<int>(n));
    }
  }
  return uses;
}

Graph Graph::with_batch(int64_t batch, const std::vector<int64_t>& rows) const {
  Graph changed = *this;
  for (Value& value : changed.values_) {
    if (value.kind == ValueKind::input && value.batched)
      value.type.shape = value.type.shape.with_batch(batch);
  }
  for (Node& node : changed.nodes_) {
    if (node.op->exchanges_samples()) {
      const size_t members = node.attributes.integers("rows").size();
      std::vector<int64_t> all = rows.empty() ? std::vector<int64_t>(members, batch) : rows;
      for (int64_t& one : all) one *= node.attributes.integer("each");
      node.attributes.set("rows", all);
    }
    const auto types = node.op->infer(changed.input_types(node), node.attributes);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      changed.values_[static_cast<size_t>(node.outputs[i])].type = types[i];
    }
  }
  return changed;
}

int64_t Graph::batch() const {
  for (const Value& value : values_) {
    if (value.kind == ValueKind::input && value.batched) return value.type.shape[0];
  }
  throw run_error("the graph has no batched input");
}

std::string Graph::str() const {
  std::string text;
  for (size_t i = 0; i < values_.size(); ++i) {
    const Value& value = values_[i];
    if (value.kind == ValueKind::result) continue;
    text += fmt::format("{} %{} {}: {}\n", text_of(value.kind), i, value.text(), value.type.str());
  }
  for (const Node& node : nodes_) {
    std::vector<std::string> outputs;
    std::vector<std::string> inputs;
    std::vector<std::string> types;
    for (const ValueId id : node.outputs) {
      outputs.push_back(fmt::format("%{}", id));
      types.push_back(value(id).type.str());
    }
    for (const ValueId id : node.inputs) inputs.push_back(id == kNoValue ? "-" : fmt::format("%{}", id));
    if (!outputs.empty()) text += fmt::format("{} = ", fmt::join(outputs, ", "));
    text += fmt::format("{}({})", node.op->name(), fmt::join(inputs, ", "));
    if (!node.attributes.empty()) text += " " + node.attributes.str();
    if (!types.empty()) text += fmt::format(" : {}", fmt::join(types, ", "));
    if (!node.scope.empty()) text += "  # " + node.scope;
    text += "\n";
  }
  for (const auto& [name, id] : outputs_) text += fmt::format("output {} = %{}\n", name, id);
  return text;
}

ValueId GraphBuilder::declare(const Value& value) {
  if (graph_.has(value.kind, value.name, value.slot)) {
    const ValueId known = graph_.find(value.kind, value.name, value.slot);
    if (graph_.value(known).type != value.type) {
      throw user_error("'{}' is used as {} and as {}; one name has one type", value.text(),
                       graph_.value(known).type.str(), value.type.str());
    }
    return known;
  }
  try {
    value.type.bytes();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("'{}': {}", value.text(), error.what()));
  }
  graph_.values_.push_back(value);
  return static_cast<ValueId>(graph_.values_.size() - 1);
}

ValueId GraphBuilder::input(const std::string& name, const TensorType& type, bool batched) {
  return declare({name, type, ValueKind::input, batched});
}

ValueId GraphBuilder::parameter(const std::string& name, const TensorType& type) {
  return declare({name, type, ValueKind::parameter});
}

ValueId GraphBuilder::gradient(const std::string& name, const TensorType& type) {
  return declare({name, type, ValueKind::gradient});
}

ValueId GraphBuilder::optimizer_state(const SlotName& slot, const std::string& name, const TensorType& type) {
  return declare({.name = name, .type = type, .kind = ValueKind::optimizer_state, .slot = slot});
}

ValueId GraphBuilder::metric(const std::string& name, int64_t values) {
  return declare({name, {DType::f32, {values}}, ValueKind::metric});
}

std::vector<ValueId> GraphBuilder::add(const Op& op, std::vector<ValueId> inputs, Attributes attributes) {
  Node node{&op, std::move(attributes), std::move(inputs), {}, scope_};
  std::vector<TensorType> types;
  try {
    types = op.infer(graph_.input_types(node), node.attributes);
    for (const TensorType& type : types) type.bytes();
  } catch (const Error& error) {
    if (scope_.empty()) throw;
    throw Error(error.kind(), fmt::format("layer '{}': {}", scope_, error.what()));
  }
  for (const TensorType& type : types) {
    graph_.values_.push_back({"", type, ValueKind::result, false, static_cast<int>(graph_.nodes_.size())});
    node.outputs.push_back(static_cast<ValueId>(graph_.values_.size() - 1));
  }
  graph_.nodes_.push_back(node);
  return node.outputs;
}

ValueId GraphBuilder::add1(const Op& op, std::vector<ValueId> inputs, Attributes attributes) {
  return add(op, std::move(inputs), std::move(attributes)).at(0);
}

void GraphBuilder::output(const std::string& name, ValueId value) {
  graph_.outputs_.emplace_back(name, value);
}

}  // namespace telar
