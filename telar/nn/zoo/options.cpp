#include "telar/nn/zoo/options.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/core/option.h"
#include "telar/core/suggest.h"

namespace telar {

namespace {

Error wrong(const std::string& model, const std::string& name, const Attribute& given,
            const std::string& right) {
  Attributes shown;
  shown.set(name, given);
  return user_error("model '{}': option {} must be {}", model, shown.str(), right);
}

/// nullptr when the option is not given.
const Attribute* find(const Attributes& given, const std::string& name) {
  const auto found =
      std::find_if(given.begin(), given.end(), [&](const auto& entry) { return entry.first == name; });
  return found == given.end() ? nullptr : &found->second;
}

}  // namespace

ZooOptions::ZooOptions(std::string model, const Attributes& given, const std::vector<std::string>& known)
    : model_(std::move(model)), given_(given) {
  for (const auto& [name, value] : given) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (known.empty()) throw user_error("model '{}' has no option '{}'; it has no options", model_, name);
    const std::string near = nearest(name, known);
    throw user_error("model '{}' has no option '{}'{}; it has {}", model_, name,
                     near.empty() ? "" : fmt::format(", did you mean '{}'?", near), fmt::join(known, ", "));
  }
}

int64_t ZooOptions::integer(const std::string& name, int64_t otherwise, int64_t least, int64_t most) const {
  return given_.has(name) ? required_integer(name, least, most) : otherwise;
}

int64_t ZooOptions::required_integer(const std::string& name, int64_t least, int64_t most) const {
  const Attribute* given = find(given_, name);
  if (given == nullptr) throw user_error("model '{}' needs the option '{}', an integer", model_, name);
  const auto* value = std::get_if<int64_t>(given);
  if (value == nullptr || *value < least || *value > most) {
    throw wrong(model_, name, *given, fmt::format("an integer of at least {} and at most {}", least, most));
  }
  return *value;
}

std::vector<int64_t> ZooOptions::integers(const std::string& name, std::vector<int64_t> otherwise,
                                          int64_t least) const {
  const Attribute* given = find(given_, name);
  if (given == nullptr) return otherwise;
  const auto* values = std::get_if<std::vector<int64_t>>(given);
  const auto fits = [least](int64_t value) { return value >= least && value <= kMost; };
  if (values == nullptr || values->size() > kMostLayers ||
      !std::all_of(values->begin(), values->end(), fits)) {
    throw wrong(model_, name, *given,
                fmt::format("a list of integers, each at least {} and at most {}, for at most {} layers",
                            least, kMost, kMostLayers));
  }
  return *values;
}

double ZooOptions::rate(const std::string& name, double otherwise) const {
  const Attribute* given = find(given_, name);
  if (given == nullptr) return otherwise;
  double value = -1;
  if (const auto* real = std::get_if<double>(given)) value = *real;
  if (const auto* integer = std::get_if<int64_t>(given)) value = static_cast<double>(*integer);
  if (!(value >= 0 && value < 1)) throw wrong(model_, name, *given, "a number of at least 0 and below 1");
  if (!fits_f32(value)) throw wrong(model_, name, *given, std::string("a number") + kFitsF32);
  return value;
}

std::string ZooOptions::choice(const std::string& name, const std::string& otherwise,
                               const std::vector<std::string>& choices) const {
  const Attribute* given = find(given_, name);
  if (given == nullptr) return otherwise;
  const auto* value = std::get_if<std::string>(given);
  if (value == nullptr || std::find(choices.begin(), choices.end(), *value) == choices.end()) {
    throw wrong(model_, name, *given, one_of(choices));
  }
  return *value;
}

}  // namespace telar
