#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "telar/comm/printable.h"
#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/messages/message_decoders.h"
#include "telar/data/messages/message_fields.h"
#include "telar/data/messages/message_values.h"

namespace telar {

namespace {

namespace ondemand = simdjson::ondemand;

/// Arrays and objects within each other, the message's own object included. The functions below call
/// themselves for each level.
constexpr int kDeepest = 32;
/// The memory that a larger message took is released with the next one.
constexpr size_t kKeptBytes = 1 << 20;

Error not_json() { return user_error("the message is not valid JSON"); }

/// The value that a call of simdjson has returned. Throws Error (user) if the text there is not JSON.
template <typename T>
T valid(simdjson::simdjson_result<T> result) {
  T value{};
  if (std::move(result).get(value) != simdjson::SUCCESS) throw not_json();
  return value;
}

/// False if the value is no number. simdjson 3.0.1 checks numbers of more than 19 digits, but reads those
/// that begin with "0." as others: 0.30000000000000000000 as 0.1155.
bool get_number(ondemand::value value, double& number) {
  constexpr size_t kRightSize = 19;
  const std::string_view text = value.raw_json_token();
  if (value.get_double().get(number) != simdjson::SUCCESS) return false;
  if (text.size() > kRightSize) std::from_chars(text.data(), text.data() + text.size(), number);
  return true;
}

/// The text of a number, or of what begins like one.
std::string_view text_of(ondemand::value value) {
  const std::string_view text = value.raw_json_token();
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

/// Whether it is a number of JSON that no f64 can hold. get_number() fails for it, too.
bool is_too_large(ondemand::value value) {
  const std::string_view text = text_of(value);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto digit_at = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  const size_t first = text.starts_with('-') ? 1 : 0;
  const size_t point = text.find('.');
  const bool json = (!text.substr(first).starts_with('0') || !digit_at(first + 1)) &&
                    (point == std::string_view::npos || digit_at(point + 1));
  return json && error == std::errc::result_out_of_range && end == text.data() + text.size();
}

void require_depth(int depth) {
  if (depth > kDeepest)
    throw user_error("the message has more than {} arrays and objects within each other", kDeepest);
}

/// Of a value that begins like a number, and that get_number() does not read.
Error no_number(ondemand::value value, const std::string& what) {
  if (!is_too_large(value)) return not_json();
  constexpr size_t kShown = 30;
  return user_error("{} is {}, which is too large for a number of 64 bits", what,
                    printable(std::string(text_of(value)), kShown));
}

std::string_view name_of(ondemand::json_type type) {
  switch (type) {
    case ondemand::json_type::array: return "an array";
    case ondemand::json_type::object: return "an object";
    case ondemand::json_type::number: return "a number";
    case ondemand::json_type::string: return "a text";
    case ondemand::json_type::boolean: return "true or false";
    default: return "null";
  }
}

/// Reads a value that nobody needs, because simdjson finds mistakes only in what is read.
void read_past(ondemand::value value, int depth) {
  switch (valid(value.type())) {
    case ondemand::json_type::array:
      require_depth(depth + 1);
      for (auto item : valid(value.get_array())) read_past(valid(item), depth + 1);
      return;
    case ondemand::json_type::object:
      require_depth(depth + 1);
      for (auto field : valid(value.get_object())) {
        valid(field.unescaped_key());
        read_past(valid(field.value()), depth + 1);
      }
      return;
    case ondemand::json_type::number:
      if (!is_too_large(value)) valid(value.get_double());
      return;
    case ondemand::json_type::string: valid(value.get_string()); return;
    case ondemand::json_type::boolean: valid(value.get_bool()); return;
    default:
      if (!valid(value.is_null())) throw not_json();
  }
}

/// Writes the numbers of JSON values one after another.
class NumberSink {
 public:
  NumberSink(std::span<std::byte> out, NumberType type, std::string_view what)
      : out_(out), room_(out.size() / size_of(type)), type_(type), what_(what) {}

  size_t count() const { return count_; }

  /// A number, or an array of numbers (nested or not).
  void add(ondemand::value value, const std::string& field, int depth = 1) {
    double number = 0;
    if (get_number(value, number)) {
      if (count_ < room_) put_number(type_, number, what_, count_, out_);
      ++count_;
      return;
    }
    const ondemand::json_type type = valid(value.type());
    if (type == ondemand::json_type::number) throw no_number(value, fmt::format("{} {}", what_, count_));
    if (type != ondemand::json_type::array)
      throw user_error("the field '{}' has {}; it must be a number, or an array of numbers", field,
                       name_of(type));
    require_depth(depth + 1);
    for (auto item : valid(value.get_array())) add(valid(item), field, depth + 1);
  }

  void require_full() const {
    if (count_ == room_) return;
    throw user_error("the fields of the {}s have {} numbers; {} are needed", what_, count_, room_);
  }

 private:
  std::span<std::byte> out_;
  size_t room_;
  NumberType type_;
  std::string_view what_;
  size_t count_ = 0;
};

/// Reads each message once, from its beginning to its end, and writes numbers where they belong as they are
/// found. If the fields come in another order, the numbers are moved at the end.
class JsonDecoder final : public MessageDecoder {
 public:
  explicit JsonDecoder(const MessageFormat& format)
      : spec_(format.spec),
        type_(feature_type(spec_)),
        vocabulary_(format.vocabulary),
        fields_(fields_of(format)),
        features_(format.fields.size()),
        found_(fields_.size()),
        lengths_(format) {}

  void decode(std::string_view message, std::span<std::byte> features, std::span<std::byte> label) override {
    ondemand::document document = parsed(message);
    std::ranges::fill(found_, Found{});
    NumberSink sink(features, type_, "feature");
    const bool in_order = read_fields(document, sink, label);
    if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) throw not_json();  // more follows
    require_all(message);
    sink.require_full();
    if (!in_order) reorder(features);
    if (type_ == NumberType::token) require_tokens(as_ints(features), vocabulary_);
    lengths_.require([this](size_t field) { return found_[field].count; });
  }

 private:
  /// Where the numbers of a field of the features are, in the order of the message.
  struct Found {
    bool here = false;
    size_t first = 0;
    size_t count = 0;
  };

  /// Returns whether the features are in the order of their fields.
  bool read_fields(ondemand::document& document, NumberSink& sink, std::span<std::byte> label) {
    size_t expected = 0;
    bool in_order = true;
    for (auto field : object_of(document)) {
      const size_t f = index_of(valid(field.unescaped_key()), expected);
      const ondemand::value value = valid(field.value());
      if (f == fields_.size()) {
        read_past(value, 1);
        continue;
      }
      if (std::exchange(found_[f].here, true))
        throw user_error("the message has the field '{}' twice", fields_[f]);
      if (f == features_) {
        read_label(value, label);
        continue;
      }
      in_order = in_order && f == expected;
      expected = f + 1;
      found_[f].first = sink.count();
      sink.add(value, fields_[f]);
      found_[f].count = sink.count() - found_[f].first;
    }
    return in_order;
  }

  /// simdjson reads up to SIMDJSON_PADDING bytes beyond a text, which the message's own memory may not have.
  ondemand::document parsed(std::string_view message) {
    if (text_.size() > kKeptBytes && message.size() <= kKeptBytes) {
      std::string().swap(text_);
      parser_ = ondemand::parser();
    }
    if (message.starts_with("\xEF\xBB\xBF")) message.remove_prefix(3);  // a byte-order mark
    text_.assign(message);
    text_.append(simdjson::SIMDJSON_PADDING, ' ');
    return valid(parser_.iterate(text_.data(), message.size(), text_.size()));
  }

  static ondemand::object object_of(ondemand::document& document) {
    const ondemand::json_type type = valid(document.type());
    if (type != ondemand::json_type::object)
      throw user_error("the message is {}; an object is needed", name_of(type));
    return valid(document.get_object());
  }

  /// Messages of a topic mostly have their fields in the same order. fields_.size(): nobody needs the field.
  size_t index_of(std::string_view key, size_t expected) const {
    if (expected < fields_.size() && fields_[expected] == key) return expected;
    return static_cast<size_t>(std::ranges::find(fields_, key) - fields_.begin());
  }

  void read_label(ondemand::value value, std::span<std::byte> label) const {
    if (spec_.classes == 0) {
      NumberSink targets(label, NumberType::f32, "target");
      targets.add(value, fields_.back());
      return targets.require_full();
    }
    double number = 0;
    if (get_number(value, number)) return put_label(spec_, class_in(number, spec_.classes), label);
    if (valid(value.type()) == ondemand::json_type::number) throw no_number(value, "the label");
    throw user_error("the field '{}' is not a number; the classes are 0 … {}", fields_.back(),
                     spec_.classes - 1);
  }

  void require_all(std::string_view message) {
    const auto missing = std::ranges::find(found_, false, &Found::here);
    if (missing == found_.end()) return;
    std::vector<std::string> names;
    ondemand::document document = parsed(message);
    for (auto field : object_of(document)) names.emplace_back(valid(field.unescaped_key()));
    const std::string& name = fields_[static_cast<size_t>(missing - found_.begin())];
    const std::string near = nearest(name, names);
    throw user_error("the message has no field '{}'{}", name,
                     near.empty() ? "" : fmt::format("; did you mean '{}'?", printable(near)));
  }

  /// Moves the numbers from the order of the message into that of the fields.
  void reorder(std::span<std::byte> features) {
    order_.assign(features.begin(), features.end());
    std::byte* out = features.data();
    for (size_t f = 0; f < features_; ++f) {
      const size_t bytes = found_[f].count * size_of(type_);
      std::memcpy(out, order_.data() + found_[f].first * size_of(type_), bytes);
      out += bytes;
    }
  }

  SampleSpec spec_;
  NumberType type_;
  int64_t vocabulary_;
  std::vector<std::string> fields_;
  size_t features_;           ///< fields of the features; the label's follows, if it is read
  std::vector<Found> found_;  ///< of each field
  FieldLengths lengths_;
  ondemand::parser parser_;
  std::string text_;
  std::vector<std::byte> order_;
};

}  // namespace

std::unique_ptr<MessageDecoder> json_decoder(const MessageFormat& format) {
  return std::make_unique<JsonDecoder>(format);
}

}  // namespace telar
