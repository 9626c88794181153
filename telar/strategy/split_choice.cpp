#include "telar/strategy/split_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "telar/core/error.h"
#include "telar/core/option.h"
#include "telar/core/pattern.h"

namespace telar {

namespace {

/// A layer that can be divided.
struct Layer {
  std::string name;     // "classifier.1"
  std::string weight;   // "classifier.1.weight"
  int64_t weights = 0;  // number of them
  int64_t inputs = 0;   // values of one sample
  int64_t outputs = 0;
  int64_t features_in = 0;
  int64_t features_out = 0;
  bool looks_up = false;  // an embedding, which can only be divided by rows, those of its table
  int previous = -1;      // the layer whose output, computed on feature by feature, is its only input
};

/// Follows a value back through operations that compute each feature alone, as long as nothing else reads it.
/// Returns the node that made it; −1 for an input.
int source_of(const Graph& graph, const std::vector<std::vector<int>>& uses, ValueId value) {
  while (graph.value(value).kind == ValueKind::result) {
    const int made = graph.value(value).node;
    if (uses[static_cast<size_t>(value)].size() > 1) return -1;
    const Node& node = graph.nodes()[static_cast<size_t>(made)];
    if (!node.op->for_features(node.attributes, graph.value(node.inputs[0]).type, 0, 1)) return made;
    value = node.inputs[0];
  }
  return -1;
}

std::vector<Layer> layers_of(const Graph& forward) {
  const auto uses = forward.uses();
  const std::vector<bool> of_samples = rows_of_samples(forward);
  const int64_t batch = forward.batch();
  std::vector<Layer> layers;
  std::map<int, int> layer_of_node;
  for (size_t n = 0; n < forward.nodes().size(); ++n) {
    const Node& node = forward.nodes()[n];
    const bool embeds = looks_up(forward, node);
    if (!node.op->is_weighted_sum(node.attributes) && !embeds) continue;
    const ValueId weights = weights_of(forward, node);
    if (weights == kNoValue || uses[static_cast<size_t>(weights)].size() > 1) continue;
    if (!of_samples[static_cast<size_t>(node.inputs[0])]) continue;
    const Value& value = forward.value(weights);
    const auto each = [&](ValueId id) { return forward.value(id).type.shape.elements() / batch; };
    const auto before = layer_of_node.find(source_of(forward, uses, node.inputs[0]));
    layer_of_node[static_cast<int>(n)] = static_cast<int>(layers.size());
    layers.push_back({value.name.substr(0, value.name.rfind('.')), value.name, value.type.shape.elements(),
                      each(node.inputs[0]), each(node.outputs[0]), value.type.shape[1], value.type.shape[0],
                      embeds, before == layer_of_node.end() ? -1 : before->second});
  }
  return layers;
}

const SplitRule* rule_for(const Layer& layer, const std::vector<SplitRule>& rules) {
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const SplitRule& rule) {
    return matches_pattern(rule.pattern, layer.name);
  });
  return found == rules.end() ? nullptr : &*found;
}

void check_rules(const std::vector<Layer>& layers, const std::vector<SplitRule>& rules) {
  for (const SplitRule& rule : rules) {
    if (std::any_of(layers.begin(), layers.end(),
                    [&](const Layer& layer) { return matches_pattern(rule.pattern, layer.name); }))
      continue;
    std::vector<std::string> names;
    for (const Layer& layer : layers) names.push_back(layer.name);
    throw user_error("strategy.split has '{}', which matches no layer that can be divided; these can: {}",
                     rule.pattern, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
}

void check_lookup(const Layer& layer, const SplitRule& rule) {
  if (!layer.looks_up || rule.whole || rule.split == LayerSplit::rows) return;
  throw user_error(
      "strategy.split has '{}=columns' for layer '{}', an embedding, which can only be divided by rows; put \"{}=rows\" or \"{}=whole\" before it",
      rule.pattern, layer.name, layer.name, layer.name);
}

/// Decides about layers without a rule. All costs are values that a worker exchanges in a step, times
/// members / (2·(members − 1)): a sum of n gradients costs n, a gather of n values and its gradient n, an
/// all-to-all of n values and its gradient n / members.
class Choice {
 public:
  Choice(const std::vector<Layer>& layers, int64_t samples, int64_t members)
      : layers_(layers), samples_(samples), members_(members), decided_(layers.size()) {}

  void decide(size_t layer, std::optional<LayerSplit> split) {
    decided_[layer] = true;
    if (split) chosen_.emplace(layers_[layer].weight, *split);
  }

  void decide_the_others() {
    for (size_t i = 0; i < layers_.size(); ++i)
      if (!decided_[i]) decide_chain(chain_from(i));
  }

  LayerSplits take() { return std::move(chosen_); }

 private:
  /// Layers without a rule, each of which alone reads the output of the one before.
  std::vector<size_t> chain_from(size_t first) const {
    std::vector<size_t> chain{first};
    for (size_t i = first + 1; i < layers_.size(); ++i)
      if (layers_[i].previous == static_cast<int>(chain.back()) && !decided_[i]) chain.push_back(i);
    return chain;
  }

  /// The cheapest choice for a chain: whole layers, divided ones, and pairs. best[i] is that of the first i.
  void decide_chain(const std::vector<size_t>& chain) {
    struct Best {
      int64_t cost = 0;
      bool pair = false;
      bool divided = false;
    };
    std::vector<Best> best(chain.size() + 1);
    for (size_t i = 1; i <= chain.size(); ++i) {
      const Layer& layer = layers_[chain[i - 1]];
      const bool divided = alone(layer) < layer.weights;
      best[i] = {best[i - 1].cost + std::min(alone(layer), layer.weights), false, divided};
      if (i == 1) continue;
      const int64_t together = best[i - 2].cost + pair(layers_[chain[i - 2]], layer);
      if (together < best[i].cost) best[i] = {together, true, true};
    }
    for (size_t i = chain.size(); i > 0; i -= best[i].pair ? 2 : 1) {
      const size_t last = chain[i - 1];
      if (best[i].pair) {
        decide(chain[i - 2], LayerSplit::columns);
        decide(last, LayerSplit::rows);
      } else {
        const LayerSplit split = layers_[last].looks_up ? LayerSplit::rows : LayerSplit::columns;
        decide(last, best[i].divided ? std::optional(split) : std::nullopt);
      }
    }
  }

  bool divisible(const Layer& layer) const { return layer.features_out >= members_; }
  int64_t alone(const Layer& layer) const {
    if (!divisible(layer)) return layer.weights;
    // Tokens have no gradient, so they pass only once.
    if (layer.looks_up) return samples_ * (layer.inputs / 2 + layer.outputs);
    return samples_ * (layer.inputs + layer.outputs / members_);
  }
  int64_t pair(const Layer& first, const Layer& second) const {
    const bool allowed = divisible(first) && !first.looks_up && !second.looks_up;
    return allowed ? samples_ * (first.inputs + second.outputs) : first.weights + second.weights;
  }

  const std::vector<Layer>& layers_;
  int64_t samples_;
  int64_t members_;
  std::vector<bool> decided_;
  LayerSplits chosen_;
};

}  // namespace

std::vector<SplitRule> split_rules(const std::vector<std::string>& texts) {
  std::vector<SplitRule> rules;
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    const std::string how = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (equals == 0 || (how != "columns" && how != "rows" && how != "whole")) {
      throw OptionError(
          "split",
          fmt::format("strategy.split has '{}'; it must be PATTERN=columns, PATTERN=rows or PATTERN=whole",
                      text));
    }
    rules.push_back(
        {text.substr(0, equals), how == "whole", how == "rows" ? LayerSplit::rows : LayerSplit::columns});
  }
  return rules;
}

LayerSplits choose_splits(const Graph& forward, int64_t samples, int64_t members,
                          const std::vector<SplitRule>& rules) {
  const std::vector<Layer> layers = layers_of(forward);
  check_rules(layers, rules);
  Choice choice(layers, samples, members);
  for (size_t i = 0; i < layers.size(); ++i) {
    const SplitRule* rule = rule_for(layers[i], rules);
    if (rule != nullptr) check_lookup(layers[i], *rule);
    if (rule != nullptr) choice.decide(i, rule->whole ? std::nullopt : std::optional(rule->split));
  }
  choice.decide_the_others();
  LayerSplits chosen = choice.take();
  if (chosen.empty()) {
    throw user_error(
        "no layer is worth dividing among {} workers: at {} samples, exchanging features takes more bytes than exchanging the gradients of the weights; choose mirrored, or name layers in strategy.split (for example \"*=columns\")",
        members, samples);
  }
  return chosen;
}

}  // namespace telar
