#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "telar/comm/printable.h"
#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/messages/message_decoders.h"
#include "telar/data/messages/message_fields.h"
#include "telar/data/messages/message_frame.h"

namespace telar {

namespace {

namespace protobuf = google::protobuf;
using protobuf::FieldDescriptor;

/// Groups within each other. The function that skips them calls itself for each level.
constexpr int kDeepestGroup = 32;

/// How a value is encoded: the low three bits of its tag
/// (developers.google.com/protocol-buffers/docs/encoding).
enum WireType : uint32_t {
  kVarint = 0,
  kEightBytes = 1,
  kLength = 2,
  kGroup = 3,
  kGroupEnd = 4,
  kFourBytes = 5
};

Error damaged() { return user_error("the message is not valid protobuf; it is cut off, or of another type"); }

/// Collects what is wrong with descriptors.
class DescriptorErrors final : public protobuf::DescriptorPool::ErrorCollector {
 public:
  void AddError(const std::string& file, const std::string& element, const protobuf::Message* /*descriptor*/,
                ErrorLocation /*location*/, const std::string& message) override {
    if (text_.empty()) text_ = fmt::format("{}, {}: {}", file, element, message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Fills the pool with the files of a descriptor set.
void add_descriptors(protobuf::DescriptorPool& pool, std::string_view bytes, const std::string& name) {
  protobuf::FileDescriptorSet set;
  if (bytes.empty() || !set.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw user_error("{}: is not a descriptor set, as protoc --descriptor_set_out writes it", name);
  DescriptorErrors errors;
  for (const protobuf::FileDescriptorProto& file : set.file()) {
    if (pool.BuildFileCollectingErrors(file, &errors) == nullptr)
      throw user_error("{}: {}; protoc --include_imports adds the files that others import", name,
                       printable(errors.text()));
  }
}

const protobuf::Descriptor& type_in(const protobuf::DescriptorPool& pool, const MessageFormat& format) {
  const protobuf::Descriptor* type = pool.FindMessageTypeByName(format.message);
  if (type == nullptr)
    throw user_error("{}: has no message '{}'; the name begins with the package, as in shop.Event",
                     format.descriptor, format.message);
  return *type;
}

/// A field of numbers.
struct WantedField {
  uint32_t number = 0;
  FieldDescriptor::Type type = FieldDescriptor::TYPE_DOUBLE;
  bool repeated = false;
  bool required = false;         ///< the message must have it; otherwise it is 0 if the message lacks it
  std::vector<int> closed = {};  ///< the values of an enum that has no others; empty: all are right
  bool here = false;             ///< in the message
};

/// Another member of a oneof with a field of numbers: of the members in a message, only the last one counts.
struct RivalField {
  uint32_t tag = 0;
  size_t field = 0;              ///< which field of the sample it displaces
  std::vector<int> closed = {};  ///< as in WantedField
};

/// An enum of proto3 may have further values. To other readers, one that proto2's lacks is no value.
std::vector<int> closed_values(const FieldDescriptor& field) {
  std::vector<int> values;
  const protobuf::EnumDescriptor* type = field.enum_type();
  if (type == nullptr || type->file()->syntax() != protobuf::FileDescriptor::SYNTAX_PROTO2) return values;
  for (int i = 0; i < type->value_count(); ++i) values.push_back(type->value(i)->number());
  return values;
}

bool is_number(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
    case FieldDescriptor::CPPTYPE_MESSAGE:
    case FieldDescriptor::CPPTYPE_BOOL: return false;
    default: return true;
  }
}

WantedField wanted_field(const protobuf::Descriptor& type, const std::string& name, bool is_class,
                         const std::string& file) {
  const FieldDescriptor* field = type.FindFieldByName(name);
  if (field == nullptr) {
    std::vector<std::string> names;
    for (int f = 0; f < type.field_count(); ++f) names.push_back(type.field(f)->name());
    const std::string near = nearest(name, names);
    throw user_error("{}: the message '{}' has no field '{}'{}", file, type.full_name(), name,
                     near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
  }
  if (!is_number(*field))
    throw user_error("{}: the field '{}' is a {}; it must be a number, an enum, or repeated ones", file, name,
                     field->type_name());
  if (is_class && field->is_repeated())
    throw user_error("{}: the field '{}' is repeated; the label of classes is one number", file, name);
  return {static_cast<uint32_t>(field->number()), field->type(), field->is_repeated(), field->has_presence(),
          closed_values(*field)};
}

WireType wire_of(FieldDescriptor::Type type) {
  switch (type) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64: return kEightBytes;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32: return kFourBytes;
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES:
    case FieldDescriptor::TYPE_MESSAGE: return kLength;
    case FieldDescriptor::TYPE_GROUP: return kGroup;
    default: return kVarint;
  }
}

uint32_t tag_of(const FieldDescriptor& field) {
  return static_cast<uint32_t>(field.number()) << 3U | wire_of(field.type());
}

/// Those of a field, which is field `wanted` of the sample.
std::vector<RivalField> rivals_of(const FieldDescriptor& field, size_t wanted) {
  std::vector<RivalField> rivals;
  const protobuf::OneofDescriptor* choice = field.containing_oneof();
  for (int f = 0; choice != nullptr && f < choice->field_count(); ++f) {
    const FieldDescriptor& other = *choice->field(f);
    if (&other != &field) rivals.push_back({tag_of(other), wanted, closed_values(other)});
  }
  return rivals;
}

/// The tags with which the fields of a type can begin, in ascending order.
std::vector<uint32_t> tags_of(const protobuf::Descriptor& type) {
  std::vector<uint32_t> tags;
  for (int f = 0; f < type.field_count(); ++f) {
    const FieldDescriptor& field = *type.field(f);
    tags.push_back(tag_of(field));
    if (field.is_packable()) tags.push_back(static_cast<uint32_t>(field.number()) << 3U | kLength);
  }
  std::ranges::sort(tags);
  return tags;
}

double from_four(FieldDescriptor::Type type, uint32_t bits) {
  if (type == FieldDescriptor::TYPE_FLOAT) return std::bit_cast<float>(bits);
  return type == FieldDescriptor::TYPE_FIXED32 ? bits : static_cast<double>(static_cast<int32_t>(bits));
}

double from_eight(FieldDescriptor::Type type, uint64_t bits) {
  if (type == FieldDescriptor::TYPE_DOUBLE) return std::bit_cast<double>(bits);
  return type == FieldDescriptor::TYPE_FIXED64 ? static_cast<double>(bits)
                                               : static_cast<double>(static_cast<int64_t>(bits));
}

double from_varint(FieldDescriptor::Type type, uint64_t bits) {
  const auto low = static_cast<uint32_t>(bits);
  switch (type) {
    case FieldDescriptor::TYPE_INT64: return static_cast<double>(static_cast<int64_t>(bits));
    case FieldDescriptor::TYPE_UINT64: return static_cast<double>(bits);
    case FieldDescriptor::TYPE_UINT32: return low;
    case FieldDescriptor::TYPE_SINT32: return static_cast<int32_t>((low >> 1U) ^ (~(low & 1U) + 1));
    case FieldDescriptor::TYPE_SINT64:
      return static_cast<double>(static_cast<int64_t>((bits >> 1U) ^ (~(bits & 1U) + 1)));
    default: return static_cast<int32_t>(low);  // int32 and enums are written with their sign in 64 bits
  }
}

/// Reads messages of one type, each once from its beginning to its end. libprotobuf's reader of the encoding
/// checks every length; no message is built, so a few bytes cannot take much memory.
class ProtobufDecoder final : public MessageDecoder {
 public:
  ProtobufDecoder(const MessageFormat& format, std::string_view descriptors)
      : fields_(format), ids_(format.schema_ids) {
    protobuf::DescriptorPool pool;
    add_descriptors(pool, descriptors, format.descriptor);
    const protobuf::Descriptor& type = type_in(pool, format);
    type_ = type.full_name();
    tags_ = tags_of(type);
    for (size_t f = 0; f < fields_.names().size(); ++f) {
      const std::string& name = fields_.names()[f];
      wanted_.push_back(wanted_field(type, name, fields_.is_class(f), format.descriptor));
      const std::vector<RivalField> rivals = rivals_of(*type.FindFieldByName(name), f);
      rivals_.insert(rivals_.end(), rivals.begin(), rivals.end());
    }
    for (const protobuf::Descriptor* outer = &type; outer != nullptr; outer = outer->containing_type())
      path_.insert(path_.begin(), outer->index());
  }

  void decode(std::string_view message, std::span<std::byte> features, std::span<std::byte> label) override {
    if (!ids_.empty()) message = without_path(without_frame(message, ids_));
    Input in(bytes_of(message), static_cast<int>(message.size()));
    fields_.clear();
    for (WantedField& field : wanted_) field.here = false;
    size_t expected = 0;
    bool of_type = message.empty();
    while (const uint32_t tag = in.ReadTag()) {
      of_type = of_type || std::ranges::binary_search(tags_, tag);
      const size_t f = index_of(tag >> 3U, expected);
      const auto value = message.substr(static_cast<size_t>(in.CurrentPosition()));
      if (f == wanted_.size()) {
        skip(in, tag, 1);
      } else {
        read_field(in, tag & 7U, f);
        expected = f + 1 < wanted_.size() ? f + 1 : 0;
      }
      for (const RivalField& rival : rivals_)
        if (rival.tag == tag && is_value(rival.closed, value)) forget(rival.field);
    }
    if (!in.ConsumedEntireMessage()) throw damaged();
    // Otherwise the missing fields have their defaults, and a message of any other type would be zeros.
    if (!of_type) throw user_error("the message has no field of '{}'; it is of another type", type_);
    add_missing();
    fields_.write(features, label);
  }

 private:
  using Input = protobuf::io::CodedInputStream;

  static const uint8_t* bytes_of(std::string_view message) {
    return reinterpret_cast<const uint8_t*>(message.data());
  }

  /// Behind the frame, Confluent's serializers write which message of the schema it is: the number of the
  /// indices, and the index of the outermost message in the file, of the next one in that one, …; a single 0
  /// stands for the first message of the file.
  std::string_view without_path(std::string_view message) const {
    Input in(bytes_of(message), static_cast<int>(message.size()));
    uint64_t bits = 0;
    const auto next = [&] {
      if (!in.ReadVarint64(&bits)) throw damaged();
      return static_cast<int64_t>((bits >> 1U) ^ (~(bits & 1U) + 1));
    };
    const int64_t count = next();
    bool right = count == 0 ? path_ == std::vector<int64_t>{0} : count == std::ssize(path_);
    for (int64_t i = 0; right && i < count; ++i) right = next() == path_[static_cast<size_t>(i)];
    if (!right)
      throw user_error("the message is another one of its schema; data.message has the indices {}",
                       fmt::join(path_, ", "));
    return message.substr(static_cast<size_t>(in.CurrentPosition()));
  }

  /// Fields are mostly written in the same order. wanted_.size(): nobody needs the field.
  size_t index_of(uint32_t number, size_t expected) const {
    if (wanted_[expected].number == number) return expected;
    return static_cast<size_t>(std::ranges::find(wanted_, number, &WantedField::number) - wanted_.begin());
  }

  /// Whether bytes begin with a value of an enum. `closed`: all that it has; empty: any is right.
  static bool is_value(const std::vector<int>& closed, std::string_view bytes) {
    uint64_t value = 0;
    return closed.empty() || (Input(bytes_of(bytes), static_cast<int>(bytes.size())).ReadVarint64(&value) &&
                              std::ranges::find(closed, static_cast<int32_t>(value)) != closed.end());
  }

  void forget(size_t f) {
    wanted_[f].here = false;
    fields_.clear(f);
  }

  void read_field(Input& in, uint32_t wire, size_t f) {
    WantedField& field = wanted_[f];
    field.here = true;
    if (!field.repeated) fields_.clear(f);  // of several values of a field, the last one counts
    if (wire == static_cast<uint32_t>(wire_of(field.type))) return read_number(in, f);
    if (wire != kLength || !field.repeated)
      throw user_error("the field '{}' is not encoded as in the descriptor", fields_.names()[f]);
    const int outside = in.PushLimit(length_of(in));
    while (in.BytesUntilLimit() > 0) read_number(in, f);
    in.PopLimit(outside);
  }

  void read_number(Input& in, size_t f) {
    const FieldDescriptor::Type type = wanted_[f].type;
    uint32_t four = 0;
    uint64_t eight = 0;
    switch (wire_of(type)) {
      case kFourBytes:
        if (!in.ReadLittleEndian32(&four)) throw damaged();
        return fields_.add(f, from_four(type, four));
      case kEightBytes:
        if (!in.ReadLittleEndian64(&eight)) throw damaged();
        return fields_.add(f, from_eight(type, eight));
      default:
        if (!in.ReadVarint64(&eight)) throw damaged();
        fields_.add(f, from_varint(type, eight));
        require_value(f, static_cast<int32_t>(eight));
    }
  }

  void require_value(size_t f, int value) const {
    const std::vector<int>& values = wanted_[f].closed;
    if (!values.empty() && std::ranges::find(values, value) == values.end())
      throw user_error("the field '{}' has {}, which is no value of its enum", fields_.names()[f], value);
  }

  /// Of what follows: at most what is left.
  static int length_of(Input& in) {
    int length = 0;
    if (!in.ReadVarintSizeAsInt(&length) || length > in.BytesUntilLimit()) throw damaged();
    return length;
  }

  static void skip(Input& in, uint32_t tag, int depth) {
    uint64_t ignored = 0;
    bool right = tag >> 3U != 0;
    switch (tag & 7U) {
      case kVarint: right = right && in.ReadVarint64(&ignored); break;
      case kEightBytes: right = right && in.Skip(8); break;
      case kFourBytes: right = right && in.Skip(4); break;
      case kLength: right = right && in.Skip(length_of(in)); break;
      case kGroup: skip_group(in, tag, depth); break;
      default: right = false;
    }
    if (!right) throw damaged();
  }

  static void skip_group(Input& in, uint32_t begin, int depth) {
    if (depth > kDeepestGroup)
      throw user_error("the message has more than {} groups within each other", kDeepestGroup);
    const uint32_t end = begin - kGroup + kGroupEnd;
    while (true) {
      const uint32_t tag = in.ReadTag();
      if (tag == end) return;
      if (tag == 0) throw damaged();
      skip(in, tag, depth + 1);
    }
  }

  void add_missing() {
    for (size_t f = 0; f < wanted_.size(); ++f) {
      const WantedField& field = wanted_[f];
      if (field.here || field.repeated) continue;
      if (field.required) throw user_error("the message has no field '{}'", fields_.names()[f]);
      fields_.add(f, 0);
    }
  }

  MessageFields fields_;
  std::string type_;                 ///< with its package
  std::vector<uint32_t> tags_;       ///< of the fields of the type
  std::vector<int64_t> ids_;         ///< of schemas, in frames; empty: there are no frames
  std::vector<int64_t> path_;        ///< where the message is in its schema: without_path()
  std::vector<WantedField> wanted_;  ///< of each field of the sample
  std::vector<RivalField> rivals_;   ///< of all of them
};

}  // namespace

std::unique_ptr<MessageDecoder> protobuf_decoder(const MessageFormat& format, std::string_view descriptors) {
  return std::make_unique<ProtobufDecoder>(format, descriptors);
}

}  // namespace telar
