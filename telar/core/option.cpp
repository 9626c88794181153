#include "telar/core/option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "telar/core/suggest.h"

namespace telar {

namespace {

std::string limits(const ValueRule& rule) {
  std::vector<std::string> parts;
  if (rule.least > -std::numeric_limits<double>::infinity()) {
    parts.push_back(fmt::format("{} {}", rule.above_least ? "above" : "at least", rule.least));
  }
  if (rule.most < std::numeric_limits<double>::infinity()) {
    parts.push_back(fmt::format("{} {}", rule.below_most ? "below" : "at most", rule.most));
  }
  return fmt::format("{}", fmt::join(parts, " and "));
}

std::string with_limits(const std::string& noun, const ValueRule& rule) {
  const std::string limit = limits(rule);
  return limit.empty() ? noun : noun + ", " + limit;
}

bool allowed(const ValueRule& rule, int64_t value) { return rule.allows(static_cast<double>(value)); }
bool allowed(const ValueRule& rule, double value) { return rule.allows(value); }
bool allowed(const ValueRule& /*rule*/, bool /*value*/) { return true; }
bool allowed(const ValueRule& rule, const std::string& value) { return rule.allows(value); }
template <typename T>
bool allowed(const ValueRule& rule, const std::vector<T>& values) {
  return std::all_of(values.begin(), values.end(), [&](const T& value) { return allowed(rule, value); });
}

/// The value in the option's type.
Attribute checked(const std::string& owner, const Option& option, const Attribute& given) {
  Attribute value = given;
  const auto* integer = std::get_if<int64_t>(&given);
  if (integer != nullptr && std::holds_alternative<double>(option.fallback))
    value = static_cast<double>(*integer);
  const bool fits = value.index() == option.fallback.index() &&
                    std::visit([&](const auto& held) { return allowed(option.rule, held); }, value);
  if (fits) return value;
  const std::string kind =
      std::visit([&](const auto& type) { return value_kind(option.rule, type); }, option.fallback);
  const auto* number = std::get_if<double>(&value);
  throw user_error("{}: option {} must be {}{}", owner, Attributes({{option.name, given}}).str(), kind,
                   number != nullptr && !fits_f32(*number) ? kFitsF32 : "");
}

}  // namespace

bool fits_f32(double value) {
  using Limits = std::numeric_limits<float>;
  return value == 0 || (std::abs(value) >= Limits::min() && std::abs(value) <= Limits::max());
}

bool ValueRule::allows(double value) const {
  const bool low = above_least ? value > least : value >= least;
  const bool high = below_most ? value < most : value <= most;
  return low && high && fits_f32(value);
}

bool ValueRule::allows(const std::string& text) const {
  if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) return true;
  return std::any_of(forms.begin(), forms.end(),
                     [&](const std::string& form) { return text.starts_with(form + ": "); });
}

std::string value_kind(const ValueRule& rule, const int64_t& /*type*/) {
  return with_limits("an integer", rule);
}
std::string value_kind(const ValueRule& rule, const double& /*type*/) {
  return with_limits("a number", rule);
}
std::string value_kind(const ValueRule& /*rule*/, const bool& /*type*/) { return "true or false"; }
std::string value_kind(const ValueRule& rule, const std::string& /*type*/) {
  if (rule.choices.empty()) return "a text";
  std::vector<std::string> valid = rule.choices;
  for (const std::string& form : rule.forms) valid.push_back("{" + form + ": …}");
  return one_of(valid);
}
std::string value_kind(const ValueRule& rule, const std::vector<int64_t>& /*type*/) {
  return with_limits("a list of integers", rule);
}
std::string value_kind(const ValueRule& rule, const std::vector<double>& /*type*/) {
  return with_limits("a list of numbers", rule);
}
std::string value_kind(const ValueRule& rule, const std::vector<std::string>& /*type*/) {
  if (rule.group) return "a group of texts";
  return rule.choices.empty() ? "a list of texts" : "a list, each item " + one_of(rule.choices);
}

Attributes completed(const std::string& owner, const std::vector<Option>& options, const Attributes& given) {
  Attributes all;
  std::vector<std::string> names;
  for (const Option& option : options) {
    names.push_back(option.name);
    if (option.required && !given.has(option.name)) throw user_error("{} needs '{}'", owner, option.name);
    all.set(option.name, option.fallback);
  }
  for (const auto& [name, value] : given) {
    const auto option = std::ranges::find(options, name, &Option::name);
    if (option == options.end()) {
      if (names.empty()) throw user_error("{} has no option '{}'; it has no options", owner, name);
      const std::string near = nearest(name, names);
      throw user_error("{} has no option '{}'{}; it has {}", owner, name,
                       near.empty() ? "" : fmt::format(", did you mean '{}'?", near), fmt::join(names, ", "));
    }
    all.set(name, checked(owner, *option, value));
  }
  return all;
}

}  // namespace telar
