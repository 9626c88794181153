#include "telar/data/message_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/message_decoders.h"
#include "telar/data/message_values.h"
#include "telar/data/pixel_loops.h"
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
        label_(raw_label_bytes(format_.spec)) {}

  void decode(std::string_view message, std::span<std::byte> features, std::span<std::byte> label) override {
    if (message.size() != features_ + label_)
      throw user_error("the message has {} bytes; {} {} and a label of {} need {}", message.size(),
                       format_.dtype, format_.spec.features.str(), bytes_text(label_), features_ + label_);
    if (format_.dtype == "u8") {
      scaled_bytes({reinterpret_cast<const uint8_t*>(message.data()), items_}, kByteScale,
                   as_floats(features));
    } else {
      std::memcpy(features.data(), message.data(), features_);
      if (format_.dtype == "i32") require_tokens(as_ints(features), format_.vocabulary);
      if (format_.dtype == "f32") require_finite(as_floats(features), "feature");
    }
    read_label(message.substr(features_), label);
  }

 private:
  static std::string bytes_text(size_t bytes) {
    return bytes == 1 ? "1 byte" : fmt::format("{} bytes", bytes);
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

/// "1,0.5,3"
void append_numbers(std::span<const std::byte> bytes, bool integers, char separator, std::string& message) {
  for (size_t i = 0; i < bytes.size() / 4; ++i) {
    if (i > 0) message += separator;
    if (integers) {
      fmt::format_to(std::back_inserter(message), "{}", numbers_in<int32_t>(bytes)[i]);
    } else {
      fmt::format_to(std::back_inserter(message), "{}", numbers_in<float>(bytes)[i]);
    }
  }
}

void require_different(std::vector<std::string> fields) {
  std::ranges::sort(fields);
  const auto twice = std::ranges::adjacent_find(fields);
  if (twice != fields.end()) throw user_error("the field '{}' is named twice", *twice);
}

}  // namespace

const std::vector<std::string>& message_format_names() {
  static const std::vector<std::string> names = {"raw", "json", "csv"};
  return names;
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
  if (format.name == "csv" && format.spec.classes == 0 && format.spec.targets.elements() != 1)
    throw user_error("csv has one target, not {}", format.spec.targets.str());
  if (format.name == "json" && format.fields.empty())
    throw user_error("json needs the names of the fields that are features");
  if (format.name == "json") require_different(json_fields(format));
}

std::unique_ptr<MessageDecoder> message_decoder(const MessageFormat& format) {
  check(format);
  if (format.name == "json") return json_decoder(format);
  if (format.name == "csv") return csv_decoder(format);
  return std::make_unique<RawDecoder>(format);
}

MessageFormat message_format_of(const Attributes& options) {
  MessageFormat format;
  format.name = options.text("format");
  format.dtype = options.text("dtype");
  format.spec = spec_of_options(options);
  format.vocabulary = options.integer("vocabulary");
  format.fields = options.texts("fields");
  format.label = options.text("label");
  return format;
}

void encode_message(const MessageFormat& format, std::span<const std::byte> features,
                    std::span<const std::byte> label, std::string& message) {
  message.clear();
  if (format.name == "raw") return append_raw(format, features, label, message);
  const bool tokens = format.spec.dtype == DType::i32;
  const bool classes = format.spec.classes > 0;
  if (format.name == "csv") {
    append_numbers(features, tokens, format.separator, message);
    message += format.separator;
    return append_numbers(label, classes, format.separator, message);
  }
  message += "{" + nlohmann::json(format.fields.front()).dump() + ":[";
  append_numbers(features, tokens, ',', message);
  message += "]," + nlohmann::json(format.label.empty() ? "label" : format.label).dump() + ":[";
  if (classes) message.pop_back();
  append_numbers(label, classes, ',', message);
  message += classes ? "}" : "]}";
}

}  // namespace telar
