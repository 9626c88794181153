#include "telar/io/json_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "telar/core/suggest.h"
#include "telar/io/shallow_json.h"

namespace telar {

namespace {

/// A value as a message shows it: short, whatever the file contains.
std::string shown(const nlohmann::json& value) {
  constexpr size_t kLongest = 40;
  if (value.is_object()) return fmt::format("an object of {} fields", value.size());
  if (value.is_array()) return fmt::format("a list of {} values", value.size());
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "…";
}

nlohmann::json parsed(const std::string& text, const std::string& source) {
  bool deep = false;
  nlohmann::json value = shallow_json<nlohmann::json>(text, &deep);
  if (deep)
    throw user_error("{} is nested more than {} deep; telar writes no such file", source, kDeepestJson);
  if (value.is_discarded()) throw user_error("{} is not JSON; it is damaged, or another file", source);
  return value;
}

bool is_integer_within(const nlohmann::json& value, int64_t least, int64_t most) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return most >= 0 && number <= static_cast<uint64_t>(most) &&
           (least <= 0 || number >= static_cast<uint64_t>(least));
  }
  if (!value.is_number_integer()) return false;
  const auto number = value.get<int64_t>();
  return number >= least && number <= most;
}

}  // namespace

JsonFields::JsonFields(const std::string& text, const std::string& source)
    : JsonFields(of(parsed(text, source), source)) {}

JsonFields JsonFields::of(nlohmann::json object, std::string source) {
  if (!object.is_object()) throw user_error("{} is {}; it must be a JSON object", source, shown(object));
  JsonFields fields;
  fields.json_ = std::move(object);
  fields.source_ = std::move(source);
  return fields;
}

const nlohmann::json& JsonFields::field(const std::string& name) const {
  const auto found = json_.find(name);
  if (found == json_.end()) throw user_error("{}: the field {} is missing", source_, name);
  return *found;
}

const nlohmann::json& JsonFields::value(const std::string& name) const {
  const nlohmann::json& found = field(name);
  if (found.is_null()) throw user_error("{}: {} is null; it must have a value", source_, name);
  return found;
}

bool JsonFields::is_null(const std::string& name) const { return field(name).is_null(); }

Error JsonFields::wrong(const std::string& name, const std::string& right) const {
  return user_error("{}: {} is {}; it must be {}", source_, name, shown(field(name)), right);
}

int64_t JsonFields::integer(const std::string& name, int64_t least, int64_t most) const {
  const nlohmann::json& found = field(name);
  if (!is_integer_within(found, least, most))
    throw wrong(name, fmt::format("an integer from {} to {}", least, most));
  return found.get<int64_t>();
}

double JsonFields::number(const std::string& name, double least) const {
  const nlohmann::json& found = field(name);
  const bool right = found.is_number() && std::isfinite(found.get<double>()) && found.get<double>() >= least;
  if (!right) {
    throw wrong(name, std::isfinite(least) ? fmt::format("a number, at least {}", least)
                                           : std::string("a finite number"));
  }
  return found.get<double>();
}

bool JsonFields::flag(const std::string& name) const {
  const nlohmann::json& found = field(name);
  if (!found.is_boolean()) throw wrong(name, "true or false");
  return found.get<bool>();
}

std::string JsonFields::text(const std::string& name) const {
  const nlohmann::json& found = field(name);
  if (!found.is_string()) throw wrong(name, "a text");
  return found.get<std::string>();
}

std::string JsonFields::choice(const std::string& name, const std::vector<std::string>& choices) const {
  const nlohmann::json& found = field(name);
  const bool right = found.is_string() && std::find(choices.begin(), choices.end(),
                                                    found.get_ref<const std::string&>()) != choices.end();
  if (!right) throw wrong(name, one_of(choices));
  return found.get<std::string>();
}

const nlohmann::json& JsonFields::list(const std::string& name, const std::string& right) const {
  const nlohmann::json& found = field(name);
  if (!found.is_array()) throw wrong(name, right);
  return found;
}

std::vector<int64_t> JsonFields::integers(const std::string& name, int64_t least, int64_t most) const {
  const std::string right = fmt::format("a list of integers from {} to {}", least, most);
  std::vector<int64_t> values;
  for (const nlohmann::json& item : list(name, right)) {
    if (!is_integer_within(item, least, most))
      throw user_error("{}: {} contains {}; it must be {}", source_, name, shown(item), right);
    values.push_back(item.get<int64_t>());
  }
  return values;
}

std::vector<double> JsonFields::numbers(const std::string& name, bool takes_null) const {
  const std::string right = "a list of finite numbers";
  std::vector<double> values;
  for (const nlohmann::json& item : list(name, right)) {
    if (takes_null && item.is_null()) {
      values.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    if (!item.is_number() || !std::isfinite(item.get<double>()))
      throw user_error("{}: {} contains {}; it must be {}", source_, name, shown(item), right);
    values.push_back(item.get<double>());
  }
  return values;
}

std::vector<std::string> JsonFields::texts(const std::string& name) const {
  const std::string right = "a list of texts";
  std::vector<std::string> values;
  for (const nlohmann::json& item : list(name, right)) {
    if (!item.is_string())
      throw user_error("{}: {} contains {}; it must be {}", source_, name, shown(item), right);
    values.push_back(item.get<std::string>());
  }
  return values;
}

}  // namespace telar
