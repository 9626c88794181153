#include "telar/data/message_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "telar/comm/printable.h"
#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/csv.h"
#include "telar/data/pixel_loops.h"

namespace telar {

static_assert(std::endian::native == std::endian::little, "raw messages are copied as they are");

namespace {

constexpr float kByteScale = 1.0F / 255.0F;
constexpr int64_t kClassesOfAByte = 256;

size_t item_bytes(const MessageFormat& format) { return format.dtype == "u8" ? 1 : 4; }

size_t raw_label_bytes(const SampleSpec& spec) {
  return spec.classes > 0 && spec.classes <= kClassesOfAByte ? 1 : spec.label_bytes();
}

float finite(double value, std::string_view what, size_t index) {
  const auto number = static_cast<float>(value);
  if (!std::isfinite(number))
    throw user_error("{} {} is {}; a finite f32 number is needed", what, index, value);
  return number;
}

int32_t class_in(double value, int64_t classes) {
  if (!(value >= 0 && value < static_cast<double>(classes)) || value != std::floor(value))
    throw user_error("the label is {}; the classes are 0 … {}", value, classes - 1);
  return static_cast<int32_t>(value);
}

void require_tokens(std::span<const int32_t> ids, int64_t vocabulary) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary)
      throw user_error("token {} is {}; the vocabulary is 0 … {}", i, ids[i], vocabulary - 1);
  }
}

void put_label(const SampleSpec& spec, int32_t label, std::span<std::byte> out) {
  if (label < 0 || label >= spec.classes)
    throw user_error("the label is {}; the classes are 0 … {}", label, spec.classes - 1);
  std::memcpy(out.data(), &label, sizeof label);
}

void require_finite(std::span<const float> values, std::string_view what) {
  for (size_t i = 0; i < values.size(); ++i) finite(values[i], what, i);
}

class RawDecoder final : public MessageDecoder {
 public:
  explicit RawDecoder(MessageFormat format)
      : format_(std::move(format)),
        items_(static_cast<size_t>(format_.spec.features.elements())),
        features_(items_ * item_bytes(format_)),
        label_(raw_label_bytes(format_.spec)) {}

  void decode(std::string_view message, std::span<std::byte> features,
              std::span<std::byte> label) const override {
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

/// Throws Error (user) for JSON whose arrays and objects are nested so deeply that a function which calls
/// itself for each level would exhaust its stack.
void require_shallow(std::string_view message) {
  constexpr int kDeepest = 32;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < message.size(); ++i) {
    const char c = message[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      if (++depth > kDeepest)
        throw user_error("the message has more than {} arrays and objects within each other", kDeepest);
    } else if (!quoted && (c == ']' || c == '}')) {
      --depth;
    }
  }
}

/// Writes the numbers of JSON values, as f32 or token ids.
class NumberSink {
 public:
  NumberSink(std::span<std::byte> out, bool tokens, std::string_view what)
      : out_(out), tokens_(tokens), what_(what) {}

  void add(const nlohmann::json& value, const std::string& field) {
    if (value.is_array()) {
      for (const nlohmann::json& item : value) add(item, field);
      return;
    }
    if (!value.is_number())
      throw user_error("the field '{}' has {}; it must be a number, or an array of numbers", field,
                       value.is_string() ? "a text" : value.type_name());
    if (count_ < out_.size() / sizeof(float)) put(value.get<double>());
    ++count_;
  }

  void require_full() const {
    if (count_ == out_.size() / sizeof(float)) return;
    throw user_error("the fields of the {}s have {} numbers; {} are needed", what_, count_,
                     out_.size() / sizeof(float));
  }

 private:
  void put(double value) {
    if (!tokens_) {
      as_floats(out_)[count_] = finite(value, what_, count_);
      return;
    }
    if (value != std::floor(value) || std::fabs(value) > 2e9)
      throw user_error("token {} is {}; an integer is needed", count_, value);
    as_ints(out_)[count_] = static_cast<int32_t>(value);
  }

  std::span<std::byte> out_;
  bool tokens_;
  std::string_view what_;
  size_t count_ = 0;
};

class JsonDecoder final : public MessageDecoder {
 public:
  explicit JsonDecoder(MessageFormat format)
      : format_(std::move(format)), label_(format_.label.empty() ? "label" : format_.label) {}

  void decode(std::string_view message, std::span<std::byte> features,
              std::span<std::byte> label) const override {
    require_shallow(message);
    const nlohmann::json object = nlohmann::json::parse(message, nullptr, false);
    if (object.is_discarded()) throw user_error("the message is not valid JSON");
    if (!object.is_object())
      throw user_error("the message is a JSON {}; an object is needed", object.type_name());
    const bool tokens = format_.spec.dtype == DType::i32;
    NumberSink sink(features, tokens, "feature");
    for (const std::string& field : format_.fields) sink.add(value_of(object, field), field);
    sink.require_full();
    if (tokens) require_tokens(as_ints(features), format_.vocabulary);
    const nlohmann::json& target = value_of(object, label_);
    if (format_.spec.classes > 0) {
      if (!target.is_number())
        throw user_error("the field '{}' is not a number; the classes are 0 … {}", label_,
                         format_.spec.classes - 1);
      return put_label(format_.spec, class_in(target.get<double>(), format_.spec.classes), label);
    }
    NumberSink targets(label, false, "target");
    targets.add(target, label_);
    targets.require_full();
  }

 private:
  static const nlohmann::json& value_of(const nlohmann::json& object, const std::string& field) {
    const auto found = object.find(field);
    if (found != object.end()) return *found;
    std::vector<std::string> names;
    for (const auto& item : object.items()) names.push_back(item.key());
    const std::string near = nearest(field, names);
    throw user_error("the message has no field '{}'{}", field,
                     near.empty() ? "" : fmt::format("; did you mean '{}'?", printable(near)));
  }

  MessageFormat format_;
  std::string label_;
};

class CsvDecoder final : public MessageDecoder {
 public:
  explicit CsvDecoder(MessageFormat format)
      : format_(std::move(format)),
        options_{.header = false,
                 .label = format_.label,
                 .separator = format_.separator,
                 .classes = format_.spec.classes} {}

  void decode(std::string_view message, std::span<std::byte> features,
              std::span<std::byte> label) const override {
    const DatasetPtr table = csv_from_text(message, options_, "the message");
    if (table->size() != 1) throw user_error("the message has {} lines; it must be one", table->size());
    if (table->spec().features.elements() != format_.spec.features.elements())
      throw user_error("the message has {} features; {} need {}", table->spec().features.elements(),
                       format_.spec.features.str(), format_.spec.features.elements());
    table->read(0, {}, features, label);
  }

 private:
  MessageFormat format_;
  CsvOptions options_;
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
}

std::unique_ptr<MessageDecoder> message_decoder(const MessageFormat& format) {
  check(format);
  if (format.name == "json") return std::make_unique<JsonDecoder>(format);
  if (format.name == "csv") return std::make_unique<CsvDecoder>(format);
  return std::make_unique<RawDecoder>(format);
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
