#include "telar/data/messages/avro_schema.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "telar/comm/printable.h"
#include "telar/core/error.h"

namespace telar {

namespace {

using Json = nlohmann::json;
using Kind = AvroType::Kind;

/// Types within each other. The functions below call themselves for each level.
constexpr int kDeepestSchema = 64;

struct NamedKind {
  std::string_view name;
  Kind kind;
  int64_t size;
};
constexpr NamedKind kPrimitives[] = {{"null", Kind::nothing, 0}, {"boolean", Kind::boolean, 0},
                                     {"int", Kind::whole, 32},   {"long", Kind::whole, 64},
                                     {"float", Kind::f32, 0},    {"double", Kind::f64, 0},
                                     {"bytes", Kind::bytes, 0},  {"string", Kind::bytes, 0}};

std::optional<AvroType> primitive(const std::string& name) {
  for (const NamedKind& known : kPrimitives)
    if (known.name == name) return AvroType{known.kind, known.size, {}, false};
  return std::nullopt;
}

class SchemaReader {
 public:
  explicit SchemaReader(const std::string& file) : file_(file) {}

  AvroSchema read(std::string_view text) {
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) throw user_error("{}: is not valid JSON; an Avro schema is needed", file_);
    schema_.record = type_of(json, "", 0);
    if (schema_.types[schema_.record].kind != Kind::record)
      throw user_error("{}: is not the schema of a record; messages with fields need one", file_);
    schema_.fields = fields_.at(schema_.record);
    found_.resize(schema_.types.size(), Found::no);
    for (size_t type = 0; type < schema_.types.size(); ++type) find_empty(type);
    return std::move(schema_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw user_error("{}: {}", file_, what); }

  size_t add(AvroType type) {
    schema_.types.push_back(std::move(type));
    return schema_.types.size() - 1;
  }

  const std::string& text_of(const Json& json, const char* key, std::string_view owner) const {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string())
      refuse(fmt::format("{} has no '{}', which must be a text", owner, key));
    return found->get_ref<const std::string&>();
  }

  const Json& list_of(const Json& json, const char* key, std::string_view owner) const {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_array())
      refuse(fmt::format("{} has no '{}', which must be a list", owner, key));
    return *found;
  }

  /// `space`: the namespace of the type around it.
  size_t type_of(const Json& json, const std::string& space, int depth) {
    if (depth > kDeepestSchema)
      refuse(fmt::format("more than {} types are within each other", kDeepestSchema));
    if (json.is_string()) return named(json.get<std::string>(), space);
    if (json.is_array()) return choice_of(json, space, depth);
    if (!json.is_object()) refuse("a type is neither a name, nor a list, nor an object");
    const auto type = json.find("type");
    if (type == json.end()) refuse("an object has no 'type'");
    if (!type->is_string()) return type_of(*type, space, depth + 1);
    const std::string& name = type->get_ref<const std::string&>();
    if (name == "record" || name == "error") return record_of(json, space, depth);
    if (name == "enum" || name == "fixed") return sized_of(json, name == "enum", space);
    if (name == "array" || name == "map") {
      const char* key = name == "array" ? "items" : "values";
      if (!json.contains(key)) refuse(fmt::format("the type {} has no '{}'", name, key));
      const size_t items = type_of(json.at(key), space, depth + 1);
      return add({name == "array" ? Kind::array : Kind::map, 0, {items}, false});
    }
    return named(name, space);
  }

  /// A primitive type, or one that has been defined before. A logical type is encoded as its own type.
  size_t named(const std::string& name, const std::string& space) {
    if (std::optional<AvroType> known = primitive(name)) return add(*known);
    const auto found = names_.find(full_name(name, space));
    if (found == names_.end()) refuse(fmt::format("the type '{}' is not defined", printable(name, 60)));
    return found->second;
  }

  static std::string full_name(const std::string& name, const std::string& space) {
    return space.empty() || name.find('.') != std::string::npos ? name : space + "." + name;
  }

  /// Returns the namespace of what the type contains.
  std::string define(const Json& json, const std::string& space, size_t type) {
    const std::string& name = text_of(json, "name", "a named type");
    const std::string own = json.contains("namespace") ? text_of(json, "namespace", name) : space;
    const std::string full = full_name(name, own);
    if (!names_.emplace(full, type).second)
      refuse(fmt::format("the type '{}' is defined twice", printable(full, 60)));
    const size_t dot = full.rfind('.');
    return dot == std::string::npos ? "" : full.substr(0, dot);
  }

  size_t record_of(const Json& json, const std::string& space, int depth) {
    const size_t record = add({Kind::record, 0, {}, false});
    const std::string inner = define(json, space, record);
    const std::string& name = text_of(json, "name", "");
    std::vector<size_t> parts;
    std::vector<std::string> fields;
    for (const Json& field : list_of(json, "fields", name)) {
      if (!field.is_object() || !field.contains("type"))
        refuse(fmt::format("a field of '{}' has no 'type'", printable(name, 60)));
      fields.push_back(text_of(field, "name", "a field of '" + printable(name, 60) + "'"));
      parts.push_back(type_of(field.at("type"), inner, depth + 1));
    }
    fields_[record] = fields;
    std::ranges::sort(fields);
    if (const auto twice = std::ranges::adjacent_find(fields); twice != fields.end())
      refuse(fmt::format("'{}' has the field '{}' twice", printable(name, 60), printable(*twice, 60)));
    schema_.types[record].parts = std::move(parts);
    return record;
  }

  size_t sized_of(const Json& json, bool symbols, const std::string& space) {
    const size_t type = add({symbols ? Kind::symbol : Kind::fixed, 0, {}, false});
    define(json, space, type);
    int64_t size = 0;
    if (symbols) {
      size = static_cast<int64_t>(list_of(json, "symbols", "an enum").size());
    } else if (json.contains("size") && json.at("size").is_number_unsigned()) {
      size = static_cast<int64_t>(std::min<uint64_t>(json.at("size").get<uint64_t>(), 1U << 30U));
    } else {
      refuse("a fixed type has no 'size', which must be a number of bytes");
    }
    schema_.types[type].size = size;
    return type;
  }

  size_t choice_of(const Json& json, const std::string& space, int depth) {
    std::vector<size_t> parts;
    for (const Json& branch : json) parts.push_back(type_of(branch, space, depth + 1));
    return add({Kind::choice, 0, std::move(parts), false});
  }

  /// Finds out whether a type's values have no bytes. A record in itself has no end, unless there is a
  /// choice, an array or a map between.
  bool find_empty(size_t number) {
    AvroType& type = schema_.types[number];
    if (found_[number] == Found::under_way) refuse("a record contains itself, without an end");
    if (found_[number] == Found::yes) return type.empty;
    found_[number] = Found::under_way;
    type.empty = type.kind == Kind::nothing || (type.kind == Kind::fixed && type.size == 0);
    if (type.kind == Kind::record) {
      type.empty = true;
      for (const size_t part : type.parts) type.empty = find_empty(part) && type.empty;
    }
    found_[number] = Found::yes;
    return type.empty;
  }

  enum class Found : uint8_t { no, under_way, yes };

  const std::string& file_;
  AvroSchema schema_;
  std::map<std::string, size_t> names_;
  std::map<size_t, std::vector<std::string>> fields_;  ///< of each record
  std::vector<Found> found_;                           ///< whether `empty` of a type is known
};

}  // namespace

AvroSchema parse_avro_schema(std::string_view text, const std::string& name) {
  return SchemaReader(name).read(text);
}

}  // namespace telar
