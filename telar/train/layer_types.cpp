#include "telar/train/layer_types.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/core/suggest.h"

namespace telar {

namespace {

std::string option_text(const Option& option) {
  if (option.required) return fmt::format("**`{}`**", option.name);
  if (!option.fallback_text.empty()) return fmt::format("`{}` ({})", option.name, option.fallback_text);
  const auto* list = std::get_if<std::vector<int64_t>>(&option.fallback);
  const bool one = list != nullptr && list->size() == 1;
  return fmt::format("`{}` ({})", option.name, one ? value_text((*list)[0]) : value_text(option.fallback));
}

std::string inputs_text(const LayerType& type) {
  if (type.least_inputs == type.most_inputs) return fmt::format("{}", type.least_inputs);
  return fmt::format("{} or more", type.least_inputs);
}

}  // namespace

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> types = [] {
    std::vector<LayerType> all = weighted_layer_types();
    for (LayerType& type : plain_layer_types()) all.push_back(std::move(type));
    return all;
  }();
  return types;
}

const LayerType& layer_type(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const LayerType& type : layer_types()) {
    if (type.name == name) return type;
    names.push_back(type.name);
  }
  const std::string near = nearest(name, names);
  throw user_error("{}: there is no layer type '{}'{}; the types are {}", where, name,
                   near.empty() ? "" : fmt::format(", did you mean '{}'?", near), fmt::join(names, ", "));
}

std::string layer_reference_table() {
  std::string table = "| type | inputs | keys (default; bold: required) |\n|---|---|---|\n";
  for (const LayerType& type : layer_types()) {
    std::vector<std::string> options;
    for (const Option& option : type.options) options.push_back(option_text(option));
    table += fmt::format("| `{}` | {} | {} |\n", type.name, inputs_text(type), fmt::join(options, ", "));
  }
  return table;
}

}  // namespace telar
