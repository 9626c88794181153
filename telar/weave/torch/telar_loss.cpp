// The loss of a step as a function of the module and the batch, from the statements of the loop that compute
// it.
#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "telar/weave/torch/telar_step.h"

namespace telar::weave {

namespace {

bool is_comprehension(const Node& node) {
  return node.is(Kind::list_comp) || node.is(Kind::set_comp) || node.is(Kind::dict_comp) ||
         node.is(Kind::generator) || node.is(Kind::lambda);
}

bool is_identifier(std::string_view text) {
  const auto letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), letter);
}

class LossWriter {
 public:
  LossWriter(const TorchWeaving& weaving, const TelarStep& step)
      : w_(weaving), names_(weaving.names), step_(step) {
    for (const Node* line : step.computing) {
      const auto assigned = assigned_by(names_, *line);
      local_.insert(assigned.begin(), assigned.end());
    }
  }

  TelarLoss write() {
    find_batch();
    collect_all();
    if (loss_.arguments.empty()) {
      find_whole_batch();
      collect_all();
    }
    if (loss_.arguments.empty())
      w_.refuse(
          step_.backward,
          "weave does not see of which tensors this loss is computed; give the module the samples, and the loss its targets");
    for (const Node* part : parts()) check_constant(*part);
    if (write_criterion()) return std::move(loss_);
    write_function();
    return std::move(loss_);
  }

 private:
  std::vector<const Node*> parts() const {
    std::vector<const Node*> all = step_.computing;
    if (step_.loss.empty()) all.push_back(receiver());
    return all;
  }

  const Node* receiver() const { return step_.backward->child("func")->child("value"); }

  /// The variables that the loop assigns anew for each step.
  void find_batch() {
    walk(*step_.loop, [&](const Node& node) {
      const bool is_variable = node.is(Kind::name) || node.is(Kind::attribute);
      if (is_variable && node.store && !step_.contains(&node)) batch_.insert(names_.tree().text(node));
      return true;
    });
    if (!step_.is_called()) return;
    for (const Node* part : parts()) {
      walk(*part, [&](const Node& node) {
        const bool is_given = node.is(Kind::name) && !node.store && names_.place(&node) >= 0 &&
                              names_.is_parameter(names_.place(&node)) &&
                              changing_name(w_, step_, node) != nullptr;
        if (is_given) batch_.insert(names_.tree().text(node));
        return true;
      });
    }
  }

  /// Of a step over all samples: the variables that are arguments of its calls.
  void find_whole_batch() {
    for (const Node* part : parts()) {
      walk(*part, [&](const Node& node) {
        const bool given = node.is(Kind::name) && !node.store && node.role == "args" &&
                           names_.place(&node) >= 0 && names_.definition(&node) == nullptr &&
                           names_.qualified(&node).empty() && !is_model_of(w_, step_, &node) &&
                           !is_number(node) && !local_.contains(names_.tree().text(node));
        if (given) batch_.insert(names_.tree().text(node));
        return true;
      });
    }
  }

  bool is_number(const Node& name) const {
    const auto origins = names_.origins(&name);
    return !origins.empty() && std::all_of(origins.begin(), origins.end(),
                                           [](const Node* origin) { return origin->is(Kind::constant); });
  }

  void collect_all() {
    for (const Node* part : parts()) collect(*part);
  }

  bool is_local(const Node& node) const {
    bool found = false;
    walk(node, [&](const Node& inner) {
      if (found || (!inner.is(Kind::name) && !inner.is(Kind::attribute))) return !found;
      found = local_.contains(names_.tree().text(inner));
      const int place = inner.is(Kind::name) ? names_.place(&inner) : -1;
      if (place >= 0) {
        const Node* scope = names_.scope(place);
        found = found || (is_comprehension(*scope) && is_inside(&node, scope));
      }
      return !found;
    });
    return found;
  }

  static bool is_size(const Node& node, const Names& names) {
    static constexpr std::array<std::string_view, 8> builtins = {"len",  "range", "int",       "float",
                                                                 "list", "zip",   "enumerate", "isinstance"};
    if (node.is(Kind::attribute)) return node.text == "shape" || node.role == "func";
    if (node.is(Kind::subscript)) {
      const Node* value = node.child("value");
      return (value->is(Kind::attribute) && value->text == "shape") || value->is(Kind::call);
    }
    if (!node.is(Kind::call)) return false;
    const Node* function = node.child("func");
    const bool method = function->is(Kind::attribute) &&
                        (function->text == "size" || function->text == "numel" || function->text == "dim");
    return method || std::find(builtins.begin(), builtins.end(), names.qualified(function)) != builtins.end();
  }

  /// Takes the largest expressions that the loop computes of the batch out of the loss: they become its
  /// arguments.
  void collect(const Node& node) {
    if (node.store) return;
    const bool is_value =
        node.is(Kind::name) || node.is(Kind::attribute) || node.is(Kind::subscript) || node.is(Kind::call);
    const bool varies = reads_any(names_, node, batch_);
    if (!varies) return;
    if (is_value && !is_local(node) && !mentions_model(w_, step_, node) && !is_size(node, names_)) {
      take(node);
      return;
    }
    for (const Field& field : node.fields) {
      for (const Node* child : field.nodes)
        if (child != nullptr) collect(*child);
    }
  }

  void take(const Node& node) {
    if (node.inside_fstring || node.parent->is(Kind::starred) ||
        (node.parent->is(Kind::keyword) && node.parent->text.empty()))
      w_.refuse(
          &node,
          "a step of Telar takes the tensors of the batch one by one; give the module each by itself instead of by * or **");
    if (node.is(Kind::name) && is_counter(node))
      w_.refuse(
          &node,
          "the loss uses a number that counts the steps, and a step of Telar keeps the numbers of its first call; leave it out, or give it as a tensor with one value for each sample");
    if (is_number_by_origin(node))
      w_.refuse(
          &node,
          "the loss uses a number that is computed anew for each step, and a step of Telar takes tensors of the batch; give it as a tensor with one value for each sample");
    const std::string text = w_.text(node);
    auto known = std::find_if(loss_.arguments.begin(), loss_.arguments.end(), [&](const StepArgument& one) {
      return one.text == text && gives_the_same(node);
    });
    if (known == loss_.arguments.end()) {
      loss_.arguments.push_back({&node, text, name_for(node)});
      known = loss_.arguments.end() - 1;
    }
    replaced_[&node] = known->name;
  }

  /// Whether an expression gives the same tensor each time: it may not draw random numbers.
  static bool gives_the_same(const Node& expression) {
    static constexpr std::array<std::string_view, 9> methods = {
        "to", "cuda", "float", "long", "view", "double", "reshape", "squeeze", "unsqueeze"};
    bool found = true;
    walk(expression, [&](const Node& node) {
      if (!node.is(Kind::call)) return found;
      const Node* function = node.child("func");
      found = found && function->is(Kind::attribute) &&
              std::find(methods.begin(), methods.end(), function->text) != methods.end();
      return found;
    });
    return found;
  }

  /// Whether an expression is certainly a number of Python.
  bool is_number_by_origin(const Node& node) const {
    const auto origins = names_.origins(&node);
    return !origins.empty() && std::all_of(origins.begin(), origins.end(), [&](const Node* origin) {
      if (origin->is(Kind::constant)) return origin->literal == Literal::number;
      if (!origin->is(Kind::call)) return false;
      const Node* function = origin->child("func");
      const std::string callee = names_.qualified(function);
      return callee == "float" || callee == "int" || callee == "len" || callee.starts_with("random.") ||
             callee == "numpy.random.beta" || (function->is(Kind::attribute) && function->text == "item");
    });
  }

  bool is_counter(const Node& name) const {
    const auto& values = names_.values(names_.place(&name));
    return std::any_of(values.begin(), values.end(), [&](const Value& value) {
      if (value.augmented) return value.node->is(Kind::constant);
      if (!value.element || !value.node->is(Kind::call) || !value.node->parent->is(Kind::for_)) return false;
      const std::string& callee = names_.callee(value.node);
      const Node* target = value.node->parent->child("target");
      const bool is_first = target->is(Kind::tuple) && target->list("elts")[0]->text == name.text;
      return callee == "range" || (callee == "enumerate" && is_first);
    });
  }

  bool is_taken(const std::string& name) const {
    return std::any_of(loss_.arguments.begin(), loss_.arguments.end(),
                       [&](const StepArgument& one) { return one.name == name; });
  }

  /// A name for an argument: `images` for `images.to(device)`, `label` for `batch["label"]`.
  std::string name_for(const Node& node) const {
    const Node* base = &node;
    std::string name;
    while (!base->is(Kind::name)) {
      if (base->is(Kind::subscript) && base->child("slice")->is_string() &&
          is_identifier(base->child("slice")->text))
        name = base->child("slice")->text;
      const Node* inner = base->is(Kind::call) ? base->child("func") : base->child("value");
      const bool is_function = base->is(Kind::call) && inner->is(Kind::name);
      if (is_function || inner == nullptr || names_.qualified(inner).find('.') != std::string::npos) {
        const Nodes given = base->is(Kind::call) ? base->list("args") : Nodes();
        if (given.empty()) break;
        inner = given[0];
      }
      if (!inner->is(Kind::name) && !inner->is(Kind::attribute) && !inner->is(Kind::subscript) &&
          !inner->is(Kind::call))
        break;
      base = inner;
    }
    if (name.empty()) name = base->is(Kind::name) ? std::string(base->text) : "x";
    const bool is_itself = base == &node;
    std::string found = name;
    for (int i = 2; is_taken(found) || (!is_itself && reads_elsewhere(found)); ++i)
      found = name + "_" + std::to_string(i);
    return found;
  }

  /// Whether the loss itself, beside its arguments, may use a variable of this name.
  bool reads_elsewhere(const std::string& name) const {
    return local_.contains(name) || std::any_of(batch_.begin(), batch_.end(), [&](std::string_view one) {
             return one == name && count_of(name) > 1;
           });
  }

  int count_of(const std::string& name) const {
    int count = 0;
    for (const Node* part : parts()) {
      walk(*part, [&](const Node& node) {
        count += node.is(Kind::name) && node.text == name ? 1 : 0;
        return true;
      });
    }
    return count;
  }

  /// What the loss uses beside the batch must not change from step to step.
  void check_constant(const Node& node) const {
    if (replaced_.contains(&node)) return;
    const bool is_variable = node.is(Kind::name) || node.is(Kind::attribute);
    if (is_variable && !node.store && !is_local(node) && !is_model_of(w_, step_, &node)) {
      const bool has_inner = node.is(Kind::attribute) && contains_replaced(node);
      if (!has_inner && changing_name(w_, step_, node) != nullptr)
        w_.refuse(
            &node,
            "the loss uses '" + w_.text(node) +
                "', which changes while the model is trained, and a step of Telar keeps the numbers of its first call; leave it out, or give it as a tensor with one value for each sample");
      if (node.is(Kind::attribute) && !has_inner) return;
    }
    for (const Field& field : node.fields) {
      for (const Node* child : field.nodes)
        if (child != nullptr) check_constant(*child);
    }
  }

  bool contains_replaced(const Node& node) const {
    return std::any_of(replaced_.begin(), replaced_.end(),
                       [&](const auto& one) { return is_inside(one.first, &node); });
  }

  /// `loss = criterion(model(x), y)`, perhaps in two statements, with a criterion of torch.
  bool write_criterion() {
    if (step_.autocast != nullptr && step_.computing.size() > 2) return false;
    const Node* last = step_.loss.empty()                         ? receiver()
                       : step_.computing.back()->is(Kind::assign) ? step_.computing.back()->child("value")
                                                                  : nullptr;
    const size_t others = step_.computing.size() - (step_.loss.empty() ? 0 : 1);
    if (last == nullptr || !last->is(Kind::call) || others > 1 || !last->list("keywords").empty())
      return false;
    const Nodes given = last->list("args");
    if (given.size() != 2 || !replaced_.contains(given[1]) || !is_criterion(last->child("func")))
      return false;
    const Node* applied = given[0];
    if (others == 1) {
      const Node* line = step_.computing.front();
      const bool plain = line->is(Kind::assign) && line->list("targets").size() == 1 &&
                         w_.text(*line->list("targets")[0]) == w_.text(*applied);
      if (!plain) return false;
      applied = line->child("value");
    }
    if (!applied->is(Kind::call) || !is_model_of(w_, step_, applied->child("func")) ||
        !applied->list("keywords").empty())
      return false;
    std::vector<StepArgument> arguments;
    for (const Node* one : applied->list("args")) {
      if (!replaced_.contains(one)) return false;
      arguments.push_back({one, w_.text(*one), ""});
    }
    arguments.push_back({given[1], w_.text(*given[1]), ""});
    loss_.arguments = arguments;
    loss_.criterion = w_.text(*last->child("func"));
    return true;
  }

  /// A loss of torch.nn.functional, or an object of a loss of torch.nn.
  bool is_criterion(const Node* function) const {
    const auto is_loss = [](const std::string& callee) {
      return callee.starts_with("torch.nn.") && callee.ends_with("Loss");
    };
    if (names_.definition(function) != nullptr) return false;
    if (names_.qualified(function).starts_with("torch.nn.functional.")) return true;
    const auto origins = names_.origins(function);
    return !origins.empty() && std::all_of(origins.begin(), origins.end(), [&](const Node* origin) {
      return origin->is(Kind::call) && is_loss(names_.callee(origin));
    });
  }

  void write_function() {
    loss_.model = std::string(step_.applied->text);
    if (is_taken(loss_.model)) loss_.model = names_.fresh("module");
    std::string result = step_.loss;
    if (!step_.loss.empty() && !receiver()->is(Kind::name)) result = names_.fresh("loss");
    for (const Node* part : parts()) {
      walk(*part, [&](const Node& node) {
        if (replaced_.contains(&node)) return false;
        const bool is_variable = node.is(Kind::name) || node.is(Kind::attribute);
        const bool is_loss = is_variable && !step_.loss.empty() && w_.text(node) == step_.loss;
        if (is_loss && step_.loss != result) replaced_[&node] = result;
        if (is_variable && !node.store && is_model_of(w_, step_, &node) && w_.text(node) != loss_.model)
          replaced_[&node] = loss_.model;
        return !replaced_.contains(&node);
      });
    }
    for (const Node* line : step_.computing) copy(*line, "");
    if (step_.loss.empty()) {
      copy(*receiver(), "return ");
    } else {
      loss_.lines.push_back("return " + result);
    }
  }

  /// Adds the lines of a statement with the names of the arguments, moved to the left.
  void copy(const Node& node, const std::string& before) {
    walk(node, [&](const Node& inner) {
      const bool spans =
          inner.is_string() && names_.tree().line_of(inner.begin) != names_.tree().line_of(inner.end);
      if (spans || (inner.is(Kind::joined_str)))
        w_.refuse(&inner, "this text is a part of the loss; put it elsewhere");
      return true;
    });
    std::map<size_t, std::pair<size_t, std::string>> changes;
    for (const auto& [inner, text] : replaced_)
      if (is_inside(inner, &node)) changes[inner->begin] = {inner->end, text};
    const std::string& source = names_.tree().source();
    std::string text = before;
    size_t at = node.begin;
    for (const auto& [begin, change] : changes) {
      text += source.substr(at, begin - at) + change.second;
      at = change.first;
    }
    text += source.substr(at, node.end - at);
    if (&node == receiver() && text.find('\n') != std::string::npos)
      text = before + "(" + text.substr(before.size()) + ")";
    std::erase(text, '\r');
    const std::string indent = names_.tree().indent_at(node.begin);
    for (std::string& line : lines(text)) {
      if (line.starts_with(indent)) line.erase(0, indent.size());
      loss_.lines.push_back(line);
    }
  }

  const TorchWeaving& w_;
  const Names& names_;
  const TelarStep& step_;
  TelarLoss loss_;
  std::set<std::string_view> local_;             // what the statements of the loss assign
  std::set<std::string_view> batch_;             // what is assigned anew for each step
  std::map<const Node*, std::string> replaced_;  // by what is written in its place
};

}  // namespace

TelarLoss loss_of(const TorchWeaving& weaving, const TelarStep& step) {
  return LossWriter(weaving, step).write();
}

}  // namespace telar::weave
