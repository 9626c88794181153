// DistributedDataParallel waits for the gradient of every parameter. A model with layers that a step does not
// use must say so, or the next step fails.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

/// Layers of torch.nn without parameters, and what a module keeps besides layers.
bool has_parameters(const std::string& callee) {
  static const std::unordered_set<std::string_view> without = {"Identity",  "Flatten",
                                                               "Unflatten", "Upsample",
                                                               "Fold",      "Unfold",
                                                               "Softmax",   "LogSoftmax",
                                                               "Tanh",      "Sigmoid",
                                                               "GELU",      "SiLU",
                                                               "ELU",       "SELU",
                                                               "CELU",      "Mish",
                                                               "Hardswish", "Hardsigmoid",
                                                               "Softplus",  "PixelShuffle",
                                                               "ZeroPad2d", "CosineSimilarity"};
  const std::string_view library = "torch.nn.";
  if (!callee.starts_with(library)) return false;
  const std::string name = callee.substr(library.size());
  const bool by_ending = name.ends_with("Loss") || name.find("Pool") != std::string::npos ||
                         name.find("Dropout") != std::string::npos || name.find("Pad") != std::string::npos ||
                         (name.ends_with("ReLU") && name != "PReLU") || name.find('.') != std::string::npos;
  return !by_ending && !without.contains(name) && name[0] >= 'A' && name[0] <= 'Z';
}

bool is_self_attribute(const Node& node) {
  return node.is(Kind::attribute) && node.child("value")->is(Kind::name) &&
         node.child("value")->text == "self";
}

/// The layers of a class of the program, and how its forward() uses them.
class Layers {
 public:
  Layers(const Names& names, const Node* owner) : names_(names), owner_(owner) {
    init_ = names.method(owner, "__init__");
    if (const Node* forward = names.method(owner, "forward")) collect(forward);
  }

  /// A layer that some step may leave out, with the reason; empty if there is none.
  std::string unused(const TorchWeaving& w, const TorchModel& model) const {
    if (init_ == nullptr || methods_.empty() || uses_all()) return {};
    std::string reason;
    walk(*init_, [&](const Node& node) {
      if (!reason.empty() || !is_self_attribute(node) || !node.store || !is_layer(node))
        return reason.empty();
      const auto uses = uses_of(node.text);
      if (uses.empty() && !is_part(node)) {
        reason = fmt::format("forward() does not use the layer {}", node.text);
      } else if (!uses.empty() && !is_sometimes_made(node) &&
                 std::none_of(uses.begin(), uses.end(),
                              [&](const Node* use) { return is_certain(*use, uses); })) {
        reason = fmt::format("not every step uses the layer {}", node.text);
      } else if (uses.size() == 1 && is_for_ignored_output(w, model, *uses[0])) {
        reason = fmt::format("the training does not use what the layer {} returns", node.text);
      }
      return true;
    });
    return reason;
  }

  /// The classes of the program whose instances are layers of this one.
  std::vector<const Node*> inner() const {
    std::vector<const Node*> found;
    if (init_ == nullptr) return found;
    walk(*init_, [&](const Node& node) {
      const Node* own = node.is(Kind::call) ? names_.definition(node.child("func")) : nullptr;
      if (own != nullptr && own->is(Kind::class_def)) found.push_back(own);
      return true;
    });
    return found;
  }

 private:
  /// The methods that forward() reaches.
  void collect(const Node* method) {
    if (std::find(methods_.begin(), methods_.end(), method) != methods_.end()) return;
    methods_.push_back(method);
    walk(*method, [&](const Node& node) {
      if (!is_self_attribute(node)) return true;
      const Node* other = names_.method(owner_, node.text);
      if (other != nullptr) collect(other);
      return true;
    });
  }

  bool is_layer(const Node& target) const {
    if (!target.parent->is(Kind::assign)) return false;
    const Node* value = target.parent->child("value");
    if (!value->is(Kind::call)) return false;
    const Node* own = names_.definition(value->child("func"));
    if (own != nullptr) return own->is(Kind::class_def) && names_.derives(own, {"torch.nn.Module"});
    return has_parameters(names_.callee(value));
  }

  /// Whether the methods go through all layers: self.children(), getattr(self, name).
  bool uses_all() const {
    bool all = false;
    for (const Node* method : methods_) {
      walk(*method, [&](const Node& node) {
        const bool bare = node.is(Kind::name) && node.text == "self" && !node.parent->is(Kind::attribute);
        const bool lists = is_self_attribute(node) && (node.text == "children" || node.text == "modules" ||
                                                       node.text == "named_children" ||
                                                       node.text == "_modules" || node.text == "parameters");
        all = all || bare || lists;
        return !all;
      });
    }
    return all;
  }

  std::vector<const Node*> uses_of(std::string_view layer) const {
    std::vector<const Node*> found;
    for (const Node* method : methods_) {
      walk(*method, [&](const Node& node) {
        if (is_self_attribute(node) && node.text == layer && !node.store) found.push_back(&node);
        return true;
      });
    }
    return found;
  }

  /// Whether __init__ makes the layer a part of another: `self.body = nn.Sequential(self.a, self.b)`.
  bool is_part(const Node& layer) const {
    bool part = false;
    walk(*init_, [&](const Node& node) {
      part = part || (is_self_attribute(node) && node.text == layer.text && !node.store &&
                      !node.parent->is(Kind::attribute));
      return !part;
    });
    return part;
  }

  static bool is_sometimes_made(const Node& layer) {
    for (const Node* around = layer.parent; around != nullptr && !around->is_function();
         around = around->parent) {
      if (around->is(Kind::if_)) return true;
    }
    return false;
  }

  bool has_parameter(const Node& expression) const {
    bool found = false;
    walk(expression, [&](const Node& node) {
      found =
          found || (node.is(Kind::name) && node.text != "self" && names_.is_parameter(names_.place(&node)));
      return !found;
    });
    return found;
  }

  /// Whether every step makes this use: it depends on no parameter of forward(), or both branches use the
  /// layer.
  bool is_certain(const Node& use, const std::vector<const Node*>& uses) const {
    const Node* above = use.parent;
    if (above->is(Kind::subscript) && use.role == "value" && above->child("slice")->is(Kind::name) &&
        names_.is_parameter(names_.place(above->child("slice"))))
      return false;  // self.heads[task](x)
    const Node* at = &use;
    for (const Node* around = use.parent; !around->is_function(); at = around, around = around->parent) {
      const bool branches = around->is(Kind::if_) || around->is(Kind::if_exp);
      if (!branches || at->role == "test" || !has_parameter(*around->child("test"))) continue;
      const std::string_view other = at->role == "body" ? "orelse" : "body";
      const auto& opposite = around->list(other);
      const bool both = std::any_of(uses.begin(), uses.end(), [&](const Node* one) {
        return std::any_of(opposite.begin(), opposite.end(),
                           [&](const Node* side) { return is_inside(one, side); });
      });
      if (!both) return false;
    }
    return true;
  }

  /// Whether the layer only computes an output that the training ignores: `rebuilt, _ = model(x)`.
  bool is_for_ignored_output(const TorchWeaving& w, const TorchModel& model, const Node& use) const {
    if (!use.parent->is(Kind::call) || use.role != "func" || !use.parent->parent->is(Kind::tuple) ||
        !use.parent->parent->parent->is(Kind::return_))
      return false;
    const auto& outputs = use.parent->parent->list("elts");
    const auto index =
        static_cast<size_t>(std::find(outputs.begin(), outputs.end(), use.parent) - outputs.begin());
    bool ignored = false;
    for (const Node* call : names_.calls()) {
      if (!call->parent->is(Kind::assign) || !applies(call, model) || !computes_gradients(w, call)) continue;
      const Node* target = call->parent->list("targets")[0];
      if (!target->is(Kind::tuple) || target->list("elts").size() != outputs.size()) return false;
      const Node* one = target->list("elts")[index];
      ignored = one->is(Kind::name) && one->text.starts_with("_");
      if (!ignored) return false;
    }
    return ignored;
  }

  bool applies(const Node* call, const TorchModel& model) const {
    if (names_.definition(call->child("func")) != nullptr) return false;
    for (const Node* origin : names_.origins(call->child("func"))) {
      if (std::find(model.origins.begin(), model.origins.end(), origin) != model.origins.end()) return true;
    }
    return false;
  }

  const Names& names_;
  const Node* owner_;
  const Node* init_ = nullptr;
  std::vector<const Node*> methods_;
};

}  // namespace

std::string unused_parameters(const TorchWeaving& weaving, const TorchModel& model) {
  std::vector<const Node*> classes;
  const auto add = [&](const Node* own) {
    const bool known = std::find(classes.begin(), classes.end(), own) != classes.end();
    if (!known && weaving.names.derives(own, {"torch.nn.Module"})) classes.push_back(own);
  };
  for (const Node* origin : model.origins) {
    const Node* own = origin->is(Kind::call) ? weaving.names.definition(origin->child("func")) : nullptr;
    if (own != nullptr && own->is(Kind::class_def)) add(own);
  }
  for (size_t i = 0; i < classes.size(); ++i) {
    const Layers layers(weaving.names, classes[i]);
    if (std::string reason = layers.unused(weaving, model); !reason.empty()) return reason;
    for (const Node* inner : layers.inner()) add(inner);
  }
  return {};
}

}  // namespace telar::weave
