#include "telar/data/messages/message_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/files.h"
#include "telar/data/messages/message_decoders.h"
#include "telar/data/messages/message_values.h"
#include "telar/data/pictures/pixel_loops.h"
#include "telar/data/source.h"

namespace telar {

static_assert(std::endian::native == std::endian::little, "raw messages are copied as they are");

namespace {

constexpr float kByteScale = 1.0F / 255.0F;
constexpr int64_t kClassesOfAByte = 256;

size_t item_bytes(const MessageFormat& format) { return format.dtype == "u8" ? 1 : 4; }

size_t raw_label_bytes(const SampleSpec& spec) {
  return spec.classes > 0 && spec.classes <= kClassesOfAByte ? 1 : spec.label_bytes();
}

class RawDecoder final : public MessageDecoder {
 public:
  explicit RawDecoder(MessageFormat format)
      : format_(std::move(format)),
        items_(static_cast<size_t>(format_.spec.features.elements())),
        features_(items_ * item_bytes(format_)),
        label_(raw_label_bytes(format_.spec)),
        narrow_(format_.spec.wide ? items_ : 0) {}

  void decode(std::string_view message, std::span<std::byte> features, std::span<std::byte> label) override {
    const bool alone = !format_.labelled && message.size() == features_;
    if (message.size() != features_ + label_ && !alone)
      throw user_error("the message has {} bytes; {} {} and a label of {} need {}", message.size(),
                       format_.dtype, format_.spec.features.str(), bytes_text(label_), features_ + label_);
    if (format_.spec.wide) {
      read_features(message, std::as_writable_bytes(std::span(narrow_)));
      std::ranges::copy(narrow_, as_doubles(features).begin());
    } else {
      read_features(message, features);
    }
    if (format_.labelled) read_label(message.substr(features_), label);
  }

 private:
  static std::string bytes_text(size_t bytes) {
    return bytes == 1 ? "1 byte" : fmt::format("{} bytes", bytes);
  }

  void read_features(std::string_view message, std::span<std::byte> out) const {
    if (format_.dtype == "u8")
      return scaled_bytes({reinterpret_cast<const uint8_t*>(message.data()), items_}, kByteScale,
                          as_floats(out));
    std::memcpy(out.data(), message.data(), features_);
    if (format_.dtype == "i32") require_tokens(as_ints(out), format_.vocabulary);
    if (format_.dtype == "f32") require_finite(as_floats(out), "feature");
  }

  void read_label(std::string_view bytes, std::span<std::byte> out) const {
    if (label_ == 1) return put_label(format_.spec, static_cast<uint8_t>(bytes[0]), out);
    std::memcpy(out.data(), bytes.data(), label_);
    if (format_.spec.classes > 0) return put_label(format_.spec, as_ints(out)[0], out);
    require_finite(as_floats(out), "target");
  }

  MessageFormat format_;
  size_t items_;
  size_t features_;
  size_t label_;
  std::vector<float> narrow_;  ///< the features of a sample whose own are wide
};

class NormalisingDecoder final : public MessageDecoder {
 public:
  NormalisingDecoder(std::unique_ptr<MessageDecoder> decoder, Normaliser normaliser, size_t wide_features)
      : decoder_(std::move(decoder)), normaliser_(std::move(normaliser)), wide_(wide_features) {}

  void decode(std::string_view message, std::span<std::byte> features, std::span<std::byte> label) override {
    if (normaliser_.takes_wide()) {
      decoder_->decode(message, std::as_writable_bytes(std::span(wide_)), label);
      normaliser_.apply(wide_, as_floats(features));
    } else {
      decoder_->decode(message, features, label);
      normaliser_.apply(as_floats(features));
    }
  }

 private:
  std::unique_ptr<MessageDecoder> decoder_;
  Normaliser normaliser_;
  std::vector<double> wide_;
};

template <typename T>
std::span<const T> numbers_in(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

void append_bytes(std::span<const float> values, std::string& message) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto byte = static_cast<uint8_t>(std::clamp(std::lround(values[i] * 255.0F), 0L, 255L));
    if (static_cast<float>(byte) * kByteScale != values[i])
      throw user_error("feature {} is {}, which is not a byte / 255; u8 cannot hold it, f32 can", i,
                       values[i]);
    message += static_cast<char>(byte);
  }
}

void append_raw(const MessageFormat& format, std::span<const std::byte> features,
                std::span<const std::byte> label, std::string& message) {
  const auto append = [&](std::span<const std::byte> bytes) {
    message.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  if (format.dtype == "u8") {
    append_bytes(numbers_in<float>(features), message);
  } else {
    append(features);
  }
  append(label.first(raw_label_bytes(format.spec)));  // the low byte comes first
}

void append_number(std::span<const std::byte> bytes, size_t i, NumberType type, std::string& message) {
  const auto append = [&](auto numbers) { fmt::format_to(std::back_inserter(message), "{}", numbers[i]); };
  switch (type) {
    case NumberType::f32: return append(numbers_in<float>(bytes));
    case NumberType::f64: return append(numbers_in<double>(bytes));
    case NumberType::token: return append(numbers_in<int32_t>(bytes));
  }
}

/// "1,0.5,3"
void append_numbers(std::span<const std::byte> bytes, NumberType type, char separator, std::string& message) {
  for (size_t i = 0; i < bytes.size() / size_of(type); ++i) {
    if (i > 0) message += separator;
    append_number(bytes, i, type, message);
  }
}

NumberType label_type(const SampleSpec& spec) {
  return spec.classes > 0 ? NumberType::token : NumberType::f32;
}

/// "\"label\":"
void append_name(const std::string& name, std::string& message) {
  message += nlohmann::json(name).dump() + ":";
}

void append_json(const MessageFormat& format, std::span<const std::byte> features,
                 std::span<const std::byte> label, std::string& message) {
  const NumberType type = feature_type(format.spec);
  const bool classes = format.spec.classes > 0;
  message += "{";
  if (format.fields.size() == 1) {
    append_name(format.fields.front(), message);
    message += "[";
    append_numbers(features, type, ',', message);
    message += "],";
  } else {
    for (size_t f = 0; f < format.fields.size(); ++f) {
      append_name(format.fields[f], message);
      append_number(features, f, type, message);
      message += ",";
    }
  }
  append_name(fields_of(format).back(), message);
  if (!classes) message += "[";
  append_numbers(label, label_type(format.spec), ',', message);
  message += classes ? "}" : "]}";
}

bool has_named_fields(const MessageFormat& format) {
  return format.name == "json" || format.name == "avro" || format.name == "protobuf";
}

std::string content_of_file(const std::string& path) {
  const Bytes bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

void require_different(std::vector<std::string> fields) {
  std::ranges::sort(fields);
  const auto twice = std::ranges::adjacent_find(fields);
  if (twice != fields.end()) throw user_error("the field '{}' is named twice", *twice);
}

}  // namespace

const std::vector<std::string>& message_format_names() {
  static const std::vector<std::string> names = {"raw", "json", "csv", "avro", "protobuf"};
  return names;
}

const std::vector<std::string>& written_format_names() {
  static const std::vector<std::string> names = {"raw", "json", "csv"};
  return names;
}

std::vector<std::string> fields_of(const MessageFormat& format) {
  std::vector<std::string> fields = format.fields;
  if (format.labelled) fields.push_back(format.label.empty() ? "label" : format.label);
  return fields;
}

void check(const MessageFormat& format) {
  if (std::ranges::find(message_format_names(), format.name) == message_format_names().end())
    throw user_error("there is no format '{}'; it must be {}", format.name, one_of(message_format_names()));
  const bool tokens = format.spec.dtype == DType::i32;
  if (tokens != (format.name == "raw" ? format.dtype == "i32" : format.vocabulary > 0) ||
      tokens != (format.vocabulary > 0))
    throw user_error("token ids need the dtype i32 and a vocabulary above 0; here they are {} and {}",
                     format.dtype, format.vocabulary);
  if (format.name == "csv" && tokens) throw user_error("csv holds f32 features, not token ids");
  if (format.name == "csv" && format.spec.classes == 0 && format.spec.labels.elements() != 1)
    throw user_error("csv has one target, not {}", format.spec.labels.str());
  if (format.name == "avro" && format.schema.empty())
    throw user_error("avro needs the file of the schema with which the records were written");
  for (const int64_t id : format.schema_ids) {
    if (id < 0 || id > std::numeric_limits<int32_t>::max())
      throw user_error("{} is not the number of a schema; it must be from 0 to 2147483647", id);
  }
  if (format.name == "protobuf" && (format.descriptor.empty() || format.message.empty()))
    throw user_error(
        "protobuf needs the file of a descriptor set (protoc --descriptor_set_out), and the name of the message in it");
  if (!has_named_fields(format)) return;
  if (format.fields.empty())
    throw user_error("{} needs the names of the fields that are features", format.name);
  require_different(fields_of(format));
}

void check_written(const MessageFormat& format) {
  const std::vector<std::string>& names = written_format_names();
  if (std::ranges::find(names, format.name) == names.end())
    throw user_error("messages are written as {}, not as {}", one_of(names), format.name);
  check(format);
  const int64_t features = format.spec.features.elements();
  const auto fields = static_cast<int64_t>(format.fields.size());
  if (format.name == "json" && fields != 1 && fields != features)
    throw user_error("{} fields cannot have {} features; name one field for all, or one for each", fields,
                     features);
}

std::unique_ptr<MessageDecoder> message_decoder(const MessageFormat& format) {
  check(format);
  if (format.name == "avro") return avro_decoder(format, content_of_file(format.schema));
  if (format.name == "protobuf") return protobuf_decoder(format, content_of_file(format.descriptor));
  if (format.name == "json") return json_decoder(format);
  if (format.name == "csv") return csv_decoder(format);
  return std::make_unique<RawDecoder>(format);
}

std::unique_ptr<MessageDecoder> message_decoder(MessageFormat format, FeatureScale scale) {
  if (scale.mean.empty()) return message_decoder(format);
  Normaliser normaliser(format.spec, std::move(scale));
  format.spec.wide = normaliser.takes_wide();
  const size_t features = format.spec.wide ? static_cast<size_t>(format.spec.features.elements()) : 0;
  return std::make_unique<NormalisingDecoder>(message_decoder(format), std::move(normaliser), features);
}

MessageFormat message_format_of(const Attributes& options) {
  MessageFormat format;
  format.name = options.text("format");
  format.dtype = options.text("dtype");
  format.spec = spec_of_options(options);
  format.vocabulary = options.integer("vocabulary");
  format.fields = options.texts("fields");
  format.label = options.text("label");
  format.schema = options.text("schema");
  format.schema_ids = options.integers("schema_ids");
  format.descriptor = options.text("descriptor");
  format.message = options.text("message");
  return format;
}

void encode_message(const MessageFormat& format, std::span<const std::byte> features,
                    std::span<const std::byte> label, std::string& message) {
  message.clear();
  if (format.name == "raw") return append_raw(format, features, label, message);
  if (format.name == "json") return append_json(format, features, label, message);
  append_numbers(features, feature_type(format.spec), format.separator, message);
  message += format.separator;
  append_numbers(label, label_type(format.spec), format.separator, message);
}

}  // namespace telar
