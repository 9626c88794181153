#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "telar/core/error.h"

namespace telar {

/// The fields of a JSON object from a file or a message, each checked when it is read: hostile input is
/// refused with a sentence that names source, field, value and what would be right.
///
///     const JsonFields fields(text, "run/state.json");
///     state.epoch = fields.integer("epoch", 0, 1'000'000'000);
///
/// All functions throw Error (user).
class JsonFields {
 public:
  /// `source` is the file, for messages. The text must be an object, nested at most 16 deep.
  JsonFields(const std::string& text, const std::string& source);
  /// The same for an object within another one.
  static JsonFields of(nlohmann::json object, std::string source);

  bool has(const std::string& name) const { return json_.contains(name); }
  /// The field itself, not null.
  const nlohmann::json& value(const std::string& name) const;
  bool is_null(const std::string& name) const;
  int64_t integer(const std::string& name, int64_t least, int64_t most) const;
  /// Finite, at least `least`.
  double number(const std::string& name, double least) const;
  bool flag(const std::string& name) const;
  std::string text(const std::string& name) const;
  /// One of these texts.
  std::string choice(const std::string& name, const std::vector<std::string>& choices) const;
  std::vector<int64_t> integers(const std::string& name, int64_t least, int64_t most) const;
  /// Finite numbers. `takes_null`: nlohmann/json writes null for NaN and infinity; NaN is read.
  std::vector<double> numbers(const std::string& name, bool takes_null = false) const;
  std::vector<std::string> texts(const std::string& name) const;
  /// A list of anything. `right` is what it must be, for messages: "a list of pieces".
  const nlohmann::json& list(const std::string& name, const std::string& right) const;

  /// The error of a field that is wrong: "FILE: NAME is VALUE; it must be RIGHT".
  Error wrong(const std::string& name, const std::string& right) const;
  const nlohmann::json& document() const { return json_; }
  const std::string& source() const { return source_; }

 private:
  JsonFields() = default;
  const nlohmann::json& field(const std::string& name) const;

  nlohmann::json json_;
  std::string source_;
};

}  // namespace telar
