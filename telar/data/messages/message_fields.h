#pragma once

#include <span>
#include <string>
#include <vector>

#include "telar/core/error.h"
#include "telar/data/messages/message_format.h"

namespace telar {

/// How many numbers each field of the features has. They follow each other, so a field with one more and the
/// next with one less would give a sample whose features are others; each field keeps its length.
class FieldLengths {
 public:
  explicit FieldLengths(const MessageFormat& format);

  /// The lengths in a sample that is right otherwise; the first one decides. Throws Error (user).
  template <typename LengthOf>
  void require(const LengthOf& length_of) {
    const bool first = lengths_.empty();
    for (size_t f = 0; f < names_.size(); ++f) {
      if (first) lengths_.push_back(length_of(f));
      if (lengths_[f] != length_of(f)) throw other_length(f, length_of(f));
    }
  }

 private:
  Error other_length(size_t field, size_t length) const;

  std::vector<std::string> names_;
  std::vector<size_t> lengths_;  ///< empty: not known yet
};

/// The numbers of a message's named fields, in whatever order they come. Those of the features follow each
/// other in the order of the names; the field of the label, if it is read, is the last. It keeps memory for
/// the next message, but hardly for more numbers than a sample has.
class MessageFields {
 public:
  explicit MessageFields(const MessageFormat& format);

  /// Of the features, then of the label, if it is read.
  const std::vector<std::string>& names() const { return names_; }
  /// Whether the label is the number of a class, which cannot be an array.
  bool is_class(size_t field) const { return field == features_ && spec_.classes > 0; }

  /// Forgets the numbers of the message before.
  void clear();
  void clear(size_t field) { numbers_[field].values.clear(); }
  void add(size_t field, double number) {
    Numbers& numbers = numbers_[field];
    if (numbers.values.size() <= numbers.most) numbers.values.push_back(number);
  }

  /// Writes the sample. Throws Error (user) for numbers that no sample has, and too many or too few of them.
  void write(std::span<std::byte> features, std::span<std::byte> label);

 private:
  struct Numbers {
    size_t most = 0;             ///< that a sample has of one field
    std::vector<double> values;  ///< at most one more
  };
  void write_label(std::span<std::byte> label) const;

  SampleSpec spec_;
  int64_t vocabulary_;
  std::vector<std::string> names_;
  size_t features_;               ///< fields of the features
  std::vector<Numbers> numbers_;  ///< of each field
  FieldLengths lengths_;
};

}  // namespace telar
