#include <algorithm>
#include <cstring>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/messages/avro_schema.h"
#include "telar/data/messages/message_decoders.h"
#include "telar/data/messages/message_fields.h"
#include "telar/data/messages/message_frame.h"

namespace telar {

namespace {

/// Values within each other that are read. The functions below call themselves for each level.
constexpr int kDeepestRecord = 32;

/// The bytes of a record. Whatever they are, no more of them are read than there are, and a length that they
/// name is compared with what is left before anything depends on it.
class AvroBytes {
 public:
  explicit AvroBytes(std::string_view bytes) : rest_(bytes) {}

  size_t left() const { return rest_.size(); }

  void skip(uint64_t bytes) {
    require(bytes);
    rest_.remove_prefix(static_cast<size_t>(bytes));
  }

  /// Seven bits in a byte, the low ones first; the lowest one is the sign.
  int64_t whole() {
    uint64_t bits = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      require(1);
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      if (shift == 63 && byte > 1) break;
      bits |= static_cast<uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return static_cast<int64_t>((bits >> 1U) ^ (~(bits & 1U) + 1));
    }
    throw user_error("the record has an integer of more than 64 bits");
  }

  /// Of a text, of bytes, or of a block.
  uint64_t length() {
    const int64_t bytes = whole();
    if (bytes < 0) throw user_error("the record has a length of {} bytes", bytes);
    return static_cast<uint64_t>(bytes);
  }

  template <typename T>
  T number() {
    require(sizeof(T));
    T value = 0;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }

 private:
  void require(uint64_t bytes) const {
    if (bytes > rest_.size())
      throw user_error(
          "the message ends within the record; it was written with another schema, or is cut off");
  }

  std::string_view rest_;
};

/// Reads records of one schema, each once from its beginning to its end.
class AvroDecoder final : public MessageDecoder {
 public:
  AvroDecoder(const MessageFormat& format, std::string_view schema)
      : schema_(parse_avro_schema(schema, format.schema)),
        fields_(format),
        ids_(format.schema_ids),
        wanted_(schema_.fields.size(), kNobody) {
    for (size_t f = 0; f < fields_.names().size(); ++f) want(f, format.schema);
  }

  void decode(std::string_view message, std::span<std::byte> features, std::span<std::byte> label) override {
    AvroBytes bytes(ids_.empty() ? message : without_frame(message, ids_));
    fields_.clear();
    const std::vector<size_t>& parts = schema_.types[schema_.record].parts;
    for (size_t part = 0; part < parts.size(); ++part) {
      if (wanted_[part] == kNobody) {
        skip(bytes, parts[part], 1);
      } else {
        read(bytes, parts[part], wanted_[part]);
      }
    }
    if (bytes.left() > 0)
      throw user_error("{} bytes follow the record; it was written with another schema", bytes.left());
    fields_.write(features, label);
  }

 private:
  static constexpr size_t kNobody = static_cast<size_t>(-1);

  /// Finds the field in the schema.
  void want(size_t field, const std::string& file) {
    const std::string& name = fields_.names()[field];
    const auto found = std::ranges::find(schema_.fields, name);
    if (found == schema_.fields.end()) {
      const std::string near = nearest(name, schema_.fields);
      throw user_error("{}: the record has no field '{}'{}", file, name,
                       near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
    }
    const auto part = static_cast<size_t>(found - schema_.fields.begin());
    const size_t type = schema_.types[schema_.record].parts[part];
    if (!has_numbers(type))
      throw user_error(
          "{}: the field '{}' is not of numbers; it must be a number, an enum, or an array of them", file,
          name);
    if (fields_.is_class(field) && schema_.types[type].kind == AvroType::Kind::array)
      throw user_error("{}: the field '{}' is an array; the label of classes is one number", file, name);
    wanted_[part] = field;
  }

  /// Whether values of a type are numbers, or arrays of numbers, or null besides.
  bool has_numbers(size_t number) const {
    const AvroType& type = schema_.types[number];
    if (type.kind == AvroType::Kind::array) return has_numbers(type.parts.front());
    if (type.kind != AvroType::Kind::choice) return type.is_number();
    const auto is_null = [this](size_t part) { return schema_.types[part].kind == AvroType::Kind::nothing; };
    return !std::ranges::all_of(type.parts, is_null) &&
           std::ranges::all_of(type.parts, [&](size_t part) { return is_null(part) || has_numbers(part); });
  }

  void read(AvroBytes& bytes, size_t number, size_t field) {
    const AvroType& type = schema_.types[number];
    switch (type.kind) {
      case AvroType::Kind::f32: return fields_.add(field, bytes.number<float>());
      case AvroType::Kind::f64: return fields_.add(field, bytes.number<double>());
      case AvroType::Kind::array:
        return each_item(bytes, type.parts.front(), [&] { read(bytes, type.parts.front(), field); });
      case AvroType::Kind::choice: return read(bytes, branch_of(bytes, type), field);
      case AvroType::Kind::nothing:
        throw user_error("the field '{}' has null; it must be a number, or an array of numbers",
                         fields_.names()[field]);
      default: return fields_.add(field, static_cast<double>(whole_of(bytes, type)));
    }
  }

  void skip(AvroBytes& bytes, size_t number, int depth) const {
    if (depth > kDeepestRecord)
      throw user_error("the record has more than {} values within each other", kDeepestRecord);
    const AvroType& type = schema_.types[number];
    switch (type.kind) {
      case AvroType::Kind::nothing: return;
      case AvroType::Kind::boolean:
        if (bytes.number<uint8_t>() > 1) throw user_error("the record has a boolean that is neither 0 nor 1");
        return;
      case AvroType::Kind::f32: return bytes.skip(sizeof(float));
      case AvroType::Kind::f64: return bytes.skip(sizeof(double));
      case AvroType::Kind::bytes: return bytes.skip(bytes.length());
      case AvroType::Kind::fixed: return bytes.skip(static_cast<uint64_t>(type.size));
      case AvroType::Kind::array:
        return each_item(bytes, type.parts.front(), [&] { skip(bytes, type.parts.front(), depth + 1); });
      case AvroType::Kind::map:
        return each_item(bytes, kNobody, [&] {
          bytes.skip(bytes.length());
          skip(bytes, type.parts.front(), depth + 1);
        });
      case AvroType::Kind::record:
        for (const size_t part : type.parts) skip(bytes, part, depth + 1);
        return;
      case AvroType::Kind::choice: return skip(bytes, branch_of(bytes, type), depth + 1);
      default: whole_of(bytes, type);
    }
  }

  /// Arrays and maps are blocks of items; the last one has none. If a block's number of items is negative,
  /// its number of bytes follows. `type`: of the items; kNobody: they have at least a byte. A block can name
  /// more items than there are bytes only if its items have none; then there is nothing to read.
  template <typename Item>
  void each_item(AvroBytes& bytes, size_t type, const Item& item) const {
    while (const int64_t block = bytes.whole()) {
      const uint64_t items = block < 0 ? ~static_cast<uint64_t>(block) + 1 : static_cast<uint64_t>(block);
      const uint64_t size = block < 0 ? bytes.length() : 0;
      const size_t before = bytes.left();
      if (type == kNobody || !schema_.types[type].empty) {
        if (items > before)
          throw user_error("the record has an array of {} items in {} bytes", items, before);
        for (uint64_t i = 0; i < items; ++i) item();
      }
      if (block < 0 && before - bytes.left() != size)
        throw user_error("the record has an array whose items take {} bytes, not {}", before - bytes.left(),
                         size);
    }
  }

  static int64_t whole_of(AvroBytes& bytes, const AvroType& type) {
    const int64_t value = bytes.whole();
    if (type.kind == AvroType::Kind::symbol && (value < 0 || value >= type.size))
      throw user_error("the record has symbol {} of an enum of {}", value, type.size);
    if (type.kind == AvroType::Kind::whole && type.size == 32 && value != static_cast<int32_t>(value))
      throw user_error("the record has {} where the schema has an int of 32 bits", value);
    return value;
  }

  static size_t branch_of(AvroBytes& bytes, const AvroType& type) {
    const int64_t branch = bytes.whole();
    if (branch < 0 || static_cast<size_t>(branch) >= type.parts.size())
      throw user_error("the record has type {} of a choice of {}", branch, type.parts.size());
    return type.parts[static_cast<size_t>(branch)];
  }

  AvroSchema schema_;
  MessageFields fields_;
  std::vector<int64_t> ids_;
  std::vector<size_t> wanted_;  ///< of each field of the record, which field of the sample it is
};

}  // namespace

std::unique_ptr<MessageDecoder> avro_decoder(const MessageFormat& format, std::string_view schema) {
  return std::make_unique<AvroDecoder>(format, schema);
}

}  // namespace telar
