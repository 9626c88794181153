#include "telar/io/graph_json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "telar/graph/buffer_text.h"
#include "telar/io/json_fields.h"

namespace telar {

namespace {

constexpr size_t kMostEntries = 1 << 16;
constexpr size_t kMostAxes = 16;
constexpr int64_t kLargestExtent = int64_t{1} << 47;
constexpr DType kElementTypes[] = {DType::f32, DType::bf16, DType::i32, DType::opaque};

nlohmann::json json_of(const Value& value) {
  nlohmann::json entry{{"kind", text_of(value.kind)},
                       {"name", value.text()},
                       {"type", name_of(value.type.dtype)},
                       {"shape", value.type.shape.dims()}};
  if (value.batched) entry["batched"] = true;
  return entry;
}

struct AttributeJson {
  nlohmann::json operator()(const std::vector<int64_t>& values) const { return {{"integers", values}}; }
  nlohmann::json operator()(const std::vector<double>& values) const { return {{"reals", values}}; }
  nlohmann::json operator()(const std::vector<std::string>& values) const { return {{"texts", values}}; }
  template <typename Single>
  nlohmann::json operator()(const Single& value) const {
    return value;
  }
};

nlohmann::json json_of(const Node& node) {
  nlohmann::json entry{{"kind", "operation"}, {"name", node.op->name()}, {"inputs", node.inputs}};
  for (const auto& [name, value] : node.attributes)
    entry["attributes"][name] = std::visit(AttributeJson(), value);
  if (!node.scope.empty()) entry["scope"] = node.scope;
  return entry;
}

Attribute attribute_of(const JsonFields& attributes, const std::string& name) {
  const nlohmann::json& value = attributes.value(name);
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return attributes.number(name, -std::numeric_limits<double>::infinity());
  if (value.is_number()) return attributes.integer(name, INT64_MIN, INT64_MAX);
  const JsonFields list = JsonFields::of(value, fmt::format("{}, attribute {}", attributes.source(), name));
  if (list.has("integers")) return list.integers("integers", INT64_MIN, INT64_MAX);
  if (list.has("reals")) return list.numbers("reals");
  return list.texts("texts");
}

/// Builds the graph, one entry after the other.
class GraphReader {
 public:
  GraphReader(const AddOperation& add, const std::string& source) : add_(add), source_(source) {}

  void add(const nlohmann::json& entry) {
    const JsonFields fields =
        JsonFields::of(entry, fmt::format("{}, entry {} of its graph", source_, entries_++));
    const std::string kind = fields.choice("kind", {"input", "parameter", "buffer", "operation", "output"});
    const std::string name = fields.text("name");
    if (kind == "operation") {
      add_operation(fields, name);
    } else if (kind == "output") {
      builder_.output(name, static_cast<ValueId>(fields.integer("value", 0, last_value(fields))));
    } else if (kind == "input") {
      add_value(fields,
                {name, type_of(fields), ValueKind::input, fields.has("batched") && fields.flag("batched")});
    } else if (kind == "parameter") {
      add_value(fields, {name, type_of(fields), ValueKind::parameter});
    } else {
      add_value(fields, buffer_of(fields, name));
    }
  }

  Graph graph() { return builder_.build(); }

 private:
  int64_t last_value(const JsonFields& fields) const {
    if (builder_.graph().values().empty())
      throw user_error("{}: there is no value before it", fields.source());
    return static_cast<int64_t>(builder_.graph().values().size()) - 1;
  }

  /// The ids of later values count on a value of its own.
  void add_value(const JsonFields& fields, const Value& value) {
    if (builder_.graph().has(value.kind, value.name, value.slot))
      throw user_error("{}: there is already a {} '{}'", fields.source(), text_of(value.kind), value.text());
    builder_.declare(value);
  }

  static Value buffer_of(const JsonFields& fields, const std::string& name) {
    auto buffer = buffer_of_text(name, type_of(fields));
    if (!buffer)
      throw user_error("{}: a buffer cannot be named '{}'; its name is gradient/…, metric/… or SLOT/…",
                       fields.source(), name);
    return *std::move(buffer);
  }

  static TensorType type_of(const JsonFields& fields) {
    TensorType type;
    const std::string dtype = fields.choice("type", {"f32", "bf16", "i32", "opaque"});
    for (const DType known : kElementTypes)
      if (name_of(known) == dtype) type.dtype = known;
    type.shape = Shape(fields.integers("shape", 1, kLargestExtent));
    if (type.shape.rank() < 1 || type.shape.rank() > kMostAxes)
      throw user_error("{}: shape has {} axes; it may have 1 to {}", fields.source(), type.shape.rank(),
                       kMostAxes);
    return type;
  }

  void add_operation(const JsonFields& fields, const std::string& name) {
    std::vector<ValueId> inputs;
    const auto values = static_cast<int64_t>(builder_.graph().values().size());
    for (const int64_t id : fields.integers("inputs", kNoValue, values - 1))
      inputs.push_back(static_cast<ValueId>(id));
    Attributes attributes;
    if (fields.has("attributes")) {
      const JsonFields given = JsonFields::of(fields.value("attributes"), fields.source() + ", attributes");
      for (const auto& [key, value] : given.document().items()) attributes.set(key, attribute_of(given, key));
    }
    builder_.set_scope(fields.has("scope") ? fields.text("scope") : "");
    if (!add_(builder_, name, std::move(inputs), std::move(attributes)))
      throw user_error("{}: the operation '{}' is unknown", fields.source(), name);
  }

  const AddOperation& add_;
  const std::string& source_;
  size_t entries_ = 0;
  GraphBuilder builder_;
};

}  // namespace

nlohmann::json json_of(const Graph& graph) {
  nlohmann::json entries = nlohmann::json::array();
  size_t next = 0;  // the first node that was not written
  const auto write_nodes_before = [&](size_t end) {
    for (; next < end; ++next) entries.push_back(json_of(graph.nodes()[next]));
  };
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::result) {
      write_nodes_before(static_cast<size_t>(value.node) + 1);
    } else {
      entries.push_back(json_of(value));
    }
  }
  write_nodes_before(graph.nodes().size());
  for (const auto& [name, id] : graph.outputs())
    entries.push_back({{"kind", "output"}, {"name", name}, {"value", id}});
  return entries;
}

Graph graph_of_json(const nlohmann::json& entries, const AddOperation& add, const std::string& source) {
  if (!entries.is_array() || entries.size() > kMostEntries)
    throw user_error("{}: its graph must be a list of at most {} entries", source, kMostEntries);
  GraphReader reader(add, source);
  for (const nlohmann::json& entry : entries) reader.add(entry);
  return reader.graph();
}

AddOperation add_found(FindOperation find) {
  return [find = std::move(find)](GraphBuilder& graph, const std::string& name, std::vector<ValueId> inputs,
                                  Attributes attributes) {
    const Op* op = find(name);
    if (op != nullptr) graph.add(*op, std::move(inputs), std::move(attributes));
    return op != nullptr;
  };
}

}  // namespace telar
