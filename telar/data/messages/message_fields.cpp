#include "telar/data/messages/message_fields.h"

#include "telar/core/error.h"
#include "telar/data/messages/message_decoders.h"
#include "telar/data/messages/message_values.h"

namespace telar {

namespace {

void require_count(size_t found, size_t needed, std::string_view what) {
  if (found == needed) return;
  throw user_error("the fields of the {}s have {} numbers; {} are needed", what,
                   found > needed ? "more" : std::to_string(found), needed);
}

}  // namespace

FieldLengths::FieldLengths(const MessageFormat& format) : names_(format.fields) {
  if (std::ssize(names_) == format.spec.features.elements()) lengths_.assign(names_.size(), 1);
}

Error FieldLengths::other_length(size_t field, size_t length) const {
  return user_error("the field '{}' has {} number{}, but {} in all other messages", names_[field], length,
                    length == 1 ? "" : "s", lengths_[field]);
}

MessageFields::MessageFields(const MessageFormat& format)
    : spec_(format.spec),
      vocabulary_(format.vocabulary),
      names_(fields_of(format)),
      features_(format.fields.size()),
      numbers_(names_.size()),
      lengths_(format) {
  // One field may have all of the features' numbers.
  for (Numbers& numbers : numbers_) numbers.most = static_cast<size_t>(spec_.features.elements());
  if (format.labelled)
    numbers_.back().most = spec_.classes > 0 ? 1 : static_cast<size_t>(spec_.labels.elements());
}

void MessageFields::clear() {
  for (Numbers& numbers : numbers_) numbers.values.clear();
}

void MessageFields::write(std::span<std::byte> features, std::span<std::byte> label) {
  const NumberType type = feature_type(spec_);
  size_t sum = 0;
  for (size_t f = 0; f < features_; ++f) sum += numbers_[f].values.size();
  require_count(sum, features.size() / size_of(type), "feature");
  size_t at = 0;
  for (size_t f = 0; f < features_; ++f) {
    for (const double number : numbers_[f].values) put_number(type, number, "feature", at++, features);
  }
  if (type == NumberType::token) require_tokens(as_ints(features), vocabulary_);
  if (features_ < numbers_.size()) write_label(label);
  lengths_.require([this](size_t field) { return numbers_[field].values.size(); });
}

void MessageFields::write_label(std::span<std::byte> label) const {
  const std::vector<double>& values = numbers_.back().values;
  if (spec_.classes > 0) {
    if (values.size() != 1)
      throw user_error("the field '{}' is not a number; the classes are 0 … {}", names_.back(),
                       spec_.classes - 1);
    return put_label(spec_, class_in(values.front(), spec_.classes), label);
  }
  require_count(values.size(), numbers_.back().most, "target");
  for (size_t i = 0; i < values.size(); ++i) put_number(NumberType::f32, values[i], "target", i, label);
}

}  // namespace telar
