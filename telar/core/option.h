#pragma once

#include <limits>
#include <string>
#include <vector>

#include "telar/core/attributes.h"
#include "telar/core/error.h"

namespace telar {

/// Whether f32, in which everything is computed, has all its digits for a number: 0, or 1.18e-38 to 3.4e38 in
/// magnitude.
bool fits_f32(double value);
/// What is said of one that does not, after the valid values.
inline constexpr const char* kFitsF32 = ", that f32 can hold: 0, or from 1.18e-38 to 3.4e38 in magnitude";

/// The valid values of an option, besides its type. Limits apply to each number of a list; a number must fit
/// f32 in any case.
struct ValueRule {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false;               ///< `least` itself is excluded
  bool below_most = false;                ///< `most` itself is excluded
  std::vector<std::string> choices = {};  ///< the valid texts, also for the items of a list; empty: any
  /// Texts: besides the choices, a group with one of these names and integers, `{offsets: [3, 5]}`. The value
  /// is what stands between the braces.
  std::vector<std::string> forms = {};
  std::vector<std::string> text_forms = {};  ///< those of `forms` that have a text, not integers
  /// Lists of texts: a group of any names and texts, `{a: x, b: y}`. The value is a list of "a: x".
  bool group = false;

  bool allows(double value) const;
  bool allows(const std::string& text) const;
  bool operator==(const ValueRule&) const = default;
};

/// "an integer, at least 1": the valid values for a type and rule, for messages and documentation.
std::string value_kind(const ValueRule& rule, const int64_t& type);
std::string value_kind(const ValueRule& rule, const double& type);
std::string value_kind(const ValueRule& rule, const bool& type);
std::string value_kind(const ValueRule& rule, const std::string& type);
std::string value_kind(const ValueRule& rule, const std::vector<int64_t>& type);
std::string value_kind(const ValueRule& rule, const std::vector<double>& type);
std::string value_kind(const ValueRule& rule, const std::vector<std::string>& type);

/// Whether a run that is resumed may have another value than before.
enum class OnResume : uint8_t {
  free,      ///< the value affects only speed or output
  recorded,  ///< the run continues with the new value, and its log says so
  refused
};

/// A named setting of something that a job chooses by name: a layer, a strategy, a source. The job's keys,
/// their checks and their documentation are generated from it.
struct Option {
  std::string name;
  Attribute fallback;  ///< the default; its type is the option's type
  ValueRule rule = {};
  bool required = false;
  size_t most_items = 0;      ///< lists: the maximum length; 0: no limit
  std::string fallback_text;  ///< for the documentation, if `fallback` itself is not informative
  std::string help;
  OnResume on_resume = OnResume::recorded;
  std::string because;  ///< if a change is refused: the reason, as the end of a sentence

  bool operator==(const Option&) const = default;
};

/// An option whose value is in its range, but does not suit the others. The message is a whole sentence.
class OptionError : public Error {
 public:
  OptionError(std::string option, const std::string& sentence)
      : Error(Kind::user, sentence), option_(std::move(option)) {}
  const std::string& option() const { return option_; }

 private:
  std::string option_;
};

/// All options: those given, and the defaults of the others. Throws Error (user) for an unknown name, with
/// the nearest known one, for a value of another type or outside its rule, and for a missing required option.
/// An integer is accepted for a real number. `owner`: "strategy 'downpour'", for messages.
Attributes completed(const std::string& owner, const std::vector<Option>& options, const Attributes& given);

}  // namespace telar
