#include "telar/train/job_layers.h"

#include <algorithm>
#include <map>
#include <set>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/train/layer_types.h"

namespace telar {

namespace {

constexpr size_t kMostLayers = 10'000;
const std::string kInput = "input";

std::string read_name(const JobNode& node, const std::string& key) {
  static constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  const bool right = node.kind == JobNode::Kind::scalar && !node.text.empty() &&
                     node.text.find_first_not_of(kAllowed) == std::string::npos;
  if (right) return node.text;
  throw user_error("{}: {} is {}; it must be a name of letters, digits, '_', '-' and '.'", node.where, key,
                   node.described());
}

std::vector<std::string> read_inputs(const JobNode& node, const std::string& key) {
  if (node.kind != JobNode::Kind::list) return {read_name(node, key)};
  std::vector<std::string> inputs;
  for (const JobNode& item : node.items) inputs.push_back(read_name(item, key));
  return inputs;
}

class LayersReader {
 public:
  explicit LayersReader(const JobNode& list) : list_(list) {
    for (const JobNode& item : list.items) {
      const JobNode* name = item.find("name");
      if (name != nullptr) reserved_.insert(name->text);
    }
  }

  std::vector<LayerJob> read() {
    std::vector<LayerJob> layers;
    for (size_t i = 0; i < list_.items.size(); ++i) layers.push_back(read_layer(list_.items[i], i));
    return layers;
  }

 private:
  LayerJob read_layer(const JobNode& node, size_t index) {
    const std::string prefix = fmt::format("model.layers.{}.", index);
    const JobNode* type_node = node.find("type");
    if (node.kind != JobNode::Kind::map || type_node == nullptr || type_node->kind != JobNode::Kind::scalar) {
      throw user_error(
          "{}: a layer must be a group of keys with a 'type', as in {{type: linear, features: 10}}",
          node.where);
    }
    const LayerType& type = layer_type(type_node->text, type_node->where);
    LayerJob layer;
    layer.where = node.where;
    layer.type = type.name;
    for (const JobEntry& entry : node.entries) read_entry(type, entry, prefix, layer);
    for (const Option& option : type.options) fill_in(option, layer);
    if (layer.name.empty()) layer.name = made_name(type.name);
    check_inputs(type, layer);
    if (layer.name == kInput || !known_.insert(layer.name).second) {
      throw user_error("{}: the name '{}' is taken; give this layer another", layer.where, layer.name);
    }
    order_.push_back(layer.name);
    return layer;
  }

  static void read_entry(const LayerType& type, const JobEntry& entry, const std::string& prefix,
                         LayerJob& layer) {
    const std::string key = prefix + entry.key;
    if (entry.key == "type") return;
    if (entry.key == "name") {
      layer.name = read_name(entry.value, key);
    } else if (entry.key == "from" || entry.key == "inputs") {
      if (!layer.inputs.empty())
        throw user_error("{}: a layer has either 'from' or 'inputs', not both", entry.where);
      layer.inputs = read_inputs(entry.value, key);
    } else {
      const auto option = std::find_if(type.options.begin(), type.options.end(),
                                       [&](const Option& known) { return known.name == entry.key; });
      if (option == type.options.end()) throw unknown_key(type, entry);
      layer.options.set(entry.key, read_option(entry.value, key, *option));
    }
  }

  static Error unknown_key(const LayerType& type, const JobEntry& entry) {
    std::vector<std::string> known = {"name", "type", "from", "inputs"};
    for (const Option& option : type.options) known.push_back(option.name);
    const std::string near = nearest(entry.key, known);
    return user_error("{}: unknown key '{}' of a {} layer{}; its keys are {}", entry.where, entry.key,
                      type.name, near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                      fmt::join(known, ", "));
  }

  static void fill_in(const Option& option, LayerJob& layer) {
    if (layer.options.has(option.name)) return;
    if (option.required) throw user_error("{}: a {} layer needs '{}'", layer.where, layer.type, option.name);
    layer.options.set(option.name, option.fallback);
  }

  std::string made_name(const std::string& type) {
    std::string name;
    do name = fmt::format("{}{}", type, ++made_[type]);
    while (reserved_.contains(name));
    return name;
  }

  void check_inputs(const LayerType& type, LayerJob& layer) const {
    if (layer.inputs.empty()) layer.inputs = {order_.empty() ? kInput : order_.back()};
    const size_t given = layer.inputs.size();
    if (given < type.least_inputs || given > type.most_inputs) {
      throw user_error("{}: layer '{}' has {} input{}; {} takes {}", layer.where, layer.name, given,
                       given == 1 ? "" : "s", type.name,
                       type.least_inputs == type.most_inputs ? fmt::format("{}", type.least_inputs)
                                                             : fmt::format("at least {}", type.least_inputs));
    }
    for (const std::string& input : layer.inputs) {
      if (input == kInput || known_.contains(input)) continue;
      const std::string near = nearest(input, order_);
      throw user_error("{}: layer '{}' takes its input from '{}', but no earlier layer has that name{}",
                       layer.where, layer.name, input,
                       near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
    }
  }

  const JobNode& list_;
  std::set<std::string> reserved_;  ///< names that the job gives
  std::set<std::string> known_;     ///< names of the layers read so far
  std::vector<std::string> order_;
  std::map<std::string, int> made_;
};

ValueId build_layers(const std::vector<LayerJob>& layers, ModelBuilder& model, ValueId x) {
  std::map<std::string, ValueId> values = {{kInput, x}};
  for (const LayerJob& layer : layers) {
    std::vector<ValueId> inputs;
    for (const std::string& input : layer.inputs) inputs.push_back(values.at(input));
    try {
      x = layer_type(layer.type, layer.where).build(model, layer, inputs);
    } catch (const Error& error) {
      const bool named = std::string_view(error.what()).find("'" + layer.name) != std::string_view::npos;
      throw Error(error.kind(),
                  fmt::format("{}: {}{}", layer.where, named ? "" : fmt::format("layer '{}': ", layer.name),
                              error.what()));
    }
    values[layer.name] = x;
  }
  return x;
}

}  // namespace

std::vector<LayerJob> read_layers(const JobNode& list) {
  if (list.kind != JobNode::Kind::list || list.items.empty()) {
    throw user_error("{}: model.layers is {}; it must be a list of layers", list.where,
                     list.kind == JobNode::Kind::list ? "empty" : list.described());
  }
  if (list.items.size() > kMostLayers) {
    throw user_error("{}: there are {} layers; at most {} are supported", list.where, list.items.size(),
                     kMostLayers);
  }
  return LayersReader(list).read();
}

Model model_of_layers(const std::vector<LayerJob>& layers, const Shape& sample, DType input) {
  return {"layers", sample, input,
          [layers](ModelBuilder& model, ValueId x) { return build_layers(layers, model, x); }};
}

}  // namespace telar
