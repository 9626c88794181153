#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace telar {

/// A type of a schema, as far as Avro's binary encoding depends on it (Apache Avro 1.11, "Binary Encoding").
struct AvroType {
  enum class Kind : uint8_t {
    nothing,  ///< "null"
    boolean,
    whole,  ///< "int" and "long"
    f32,
    f64,
    bytes,  ///< and "string"
    fixed,
    symbol,  ///< "enum"
    array,
    map,
    record,
    choice  ///< a union
  };
  Kind kind = Kind::nothing;
  int64_t size = 0;  ///< whole: its bits; fixed: its bytes; symbol: how many there are
  std::vector<size_t>
      parts;           ///< the items of an array or a map, the fields of a record, the branches of a choice
  bool empty = false;  ///< its values have no bytes

  bool is_number() const {
    return kind == Kind::whole || kind == Kind::f32 || kind == Kind::f64 || kind == Kind::symbol;
  }
};

/// The schema of records.
struct AvroSchema {
  std::vector<AvroType> types;      ///< parts are their numbers here
  size_t record = 0;                ///< of the record itself
  std::vector<std::string> fields;  ///< names of the record's fields
};

/// Reads a schema (.avsc: JSON). `name`: of the file, for messages. Throws Error (user) if it is not the
/// schema of a record: damaged, of an unknown type, a record within itself without an end.
AvroSchema parse_avro_schema(std::string_view text, const std::string& name);

}  // namespace telar
