// What a loop does with the values of a step beside its loss: the accuracy of the outputs, parts of the loss.
#include <algorithm>
#include <array>

#include "telar/weave/torch/telar_step.h"

namespace telar::weave {

namespace {

class OtherUses {
 public:
  OtherUses(const TorchWeaving& weaving, TelarStep& step) : w_(weaving), names_(weaving.names), step_(step) {}

  void read() {
    for (const Node* line : step_.computing) {
      walk(*line, [&](const Node& node) {
        if (node.is(Kind::comprehension) || node.is(Kind::lambda)) return false;
        if (node.store) look_at(node);
        return true;
      });
    }
    if (step_.outputs != nullptr) check_modes();
  }

 private:
  /// A variable that the statements of the loss assign.
  void look_at(const Node& variable) {
    if (variable.is(Kind::subscript))
      w_.refuse(&variable, "the loss is put into a table here; compute it in variables of the loop");
    if (!variable.is(Kind::name) && !variable.is(Kind::attribute)) return;
    const Node* use = first_use(variable);
    if (w_.text(variable) == step_.loss) {
      step_.is_loss_read = step_.is_loss_read || use != nullptr;
      check_finished(variable);
      return;
    }
    if (variable.is(Kind::attribute))
      w_.refuse(
          &variable,
          "the loss is computed through an attribute, which a graph would not set; use a variable of the loop");
    if (use != nullptr) keep(variable, *use);
  }

  /// The first use outside the statements of the step that may see the value assigned here; null if there is
  /// none.
  const Node* first_use(const Node& variable) const {
    const auto& mentions = names_.mentions(names_.place(&variable));
    const auto found = std::find_if(mentions.begin(), mentions.end(), [&](const Node* mention) {
      return !mention->store && !step_.contains(mention) && sees(*mention, variable);
    });
    return found == mentions.end() ? nullptr : *found;
  }

  /// Whether no other assignment is certain to come between the step's and this use.
  bool sees(const Node& use, const Node& variable) const {
    if (function_of(&use) != step_.function) return true;
    if (step_.is_called()) return true;
    const bool in_loop = is_inside(&use, step_.loop);
    const bool is_before = !in_loop && use.begin < step_.loop->begin;
    if (is_before && !is_inside(&use, outermost_loop(step_))) return false;
    const auto& mentions = names_.mentions(names_.place(&variable));
    return std::none_of(mentions.begin(), mentions.end(), [&](const Node* other) {
      const Node* statement = statement_of(other);
      if (!other->store || step_.contains(other) || !is_inside(&use, statement->parent)) return false;
      const bool binds_first =
          (statement->is(Kind::for_) || statement->is(Kind::with)) && is_inside(&use, statement);
      if (statement->end > use.begin && !binds_first) return false;
      if (in_loop)
        return is_inside(statement, step_.loop) && statement->begin > step_.computing.front()->begin;
      return is_before || statement->begin > step_.loop->end;
    });
  }

  /// The loss must not be read before its last part is added.
  void check_finished(const Node& variable) const {
    const Node* first = nullptr;
    const Node* last = nullptr;
    for (const Node* line : step_.computing) {
      if (!assigned_by(names_, *line).contains(step_.loss)) continue;
      first = first == nullptr ? line : first;
      last = line;
    }
    for (const Node* mention : names_.mentions(names_.place(&variable))) {
      const bool between = mention->begin > first->end && mention->end < last->begin;
      if (between && !mention->store && !step_.contains(mention))
        w_.refuse(mention,
                  "the loss is read here before it is complete; give its parts variables of their own");
    }
  }

  /// Lets a value be computed in the loop as well, from the module's output.
  void keep(const Node& variable, const Node& use) {
    std::vector<const Node*> lines;
    for (const Node* line : step_.computing)
      if (assigned_by(names_, *line).contains(w_.text(variable))) lines.push_back(line);
    const Node* line = lines.size() == 1 ? lines[0] : nullptr;
    const bool plain = line != nullptr && line->is(Kind::assign) && line->list("targets").size() == 1 &&
                       line->list("targets")[0]->is(Kind::name);
    if (!plain) refuse_use(variable, use);
    const Node* value = line->child("value");
    if (const Node* applied = application_in(*value)) {
      step_.outputs = applied;
      step_.kept.insert(line);
      use_ = &use;
      return;
    }
    if (mentions_model(w_, step_, *line) || reads_any(names_, *value, {step_.loss}))
      refuse_use(variable, use);
    if (!step_.kept.insert(line).second) return;
    walk(*value, [&](const Node& node) {
      if (node.is(Kind::name) && !node.store && is_computed(node)) keep(node, use);
      return true;
    });
  }

  [[noreturn]] void refuse_use(const Node& variable, const Node& use) const {
    w_.refuse(
        &use,
        "'" + w_.text(variable) +
            "' is used for more than the loss, and a step of Telar gives the loss, and the output of a module that is one tensor; compute this in an evaluation after the epoch");
  }

  bool is_computed(const Node& name) const {
    return std::any_of(step_.computing.begin(), step_.computing.end(),
                       [&](const Node* line) { return assigned_by(names_, *line).contains(w_.text(name)); });
  }

  /// The only application of the model, if it is in this expression, of which nothing else is computed in the
  /// step.
  const Node* application_in(const Node& value) const {
    const Node* found = nullptr;
    int count = 0;
    for (const Node* line : step_.computing) {
      walk(*line, [&](const Node& node) {
        const bool is_model =
            (node.is(Kind::name) || node.is(Kind::attribute)) && is_model_of(w_, step_, &node);
        count += is_model ? 1 : 0;
        if (is_model && node.role == "func" && is_inside(&node, &value)) found = node.parent;
        return true;
      });
    }
    bool is_alone = count == 1 && found != nullptr;
    walk(value, [&](const Node& node) {
      is_alone = is_alone && !(node.is(Kind::name) && is_computed(node));
      return is_alone;
    });
    return is_alone ? found : nullptr;
  }

  /// The module's output is computed in evaluation mode, so it must not depend on the mode.
  void check_modes() const {
    static constexpr std::array<std::string_view, 6> kinds = {
        "torch.nn.Dropout",      "torch.nn.BatchNorm",   "torch.nn.LazyBatchNorm",
        "torch.nn.AlphaDropout", "torch.nn.Transformer", "torch.nn.functional.dropout"};
    for (const Node* call : names_.calls()) {
      const std::string& callee = names_.callee(call);
      const bool is_layer =
          std::any_of(kinds.begin(), kinds.end(), [&](auto kind) { return callee.starts_with(kind); });
      const bool is_known = callee.starts_with("torchvision.models.") &&
                            std::find(step_.model->origins.begin(), step_.model->origins.end(), call) !=
                                step_.model->origins.end();
      if (is_layer || is_known)
        w_.refuse(
            use_,
            "the outputs of a training step are used for more than the loss, and with dropout or batch norm Telar does not give them; compute this in an evaluation after the epoch, with model.eval()");
    }
  }

  const TorchWeaving& w_;
  const Names& names_;
  TelarStep& step_;
  const Node* use_ = nullptr;  // of the outputs
};

}  // namespace

void read_other_uses(const TorchWeaving& weaving, TelarStep& step) { OtherUses(weaving, step).read(); }

}  // namespace telar::weave
