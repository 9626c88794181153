#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

/// What the loss of a step takes of the batch: an expression that the loop computes, and its name in the
/// loss.
struct StepArgument {
  const Node* expression = nullptr;
  std::string text;
  std::string name;
};

/// A training step as the target `telar` writes it: the statements of a loop that become one call of
/// telar.torch.Step.
struct TelarStep {
  const Node* backward = nullptr;  ///< the call `loss.backward()`
  const Node* function = nullptr;  ///< around it; null at the level of a module
  /// The nearest loop around it, over batches or over epochs; or the function, if each call makes one step.
  const Node* loop = nullptr;
  const Node* stepping = nullptr;   ///< the statement `optimizer.step()`
  const Node* optimizer = nullptr;  ///< the expression there
  const TorchOptimizer* made = nullptr;
  const TorchModel* model = nullptr;
  const Node* applied = nullptr;  ///< an expression for the model in the loop
  /// The statements of the step in their order, from the first of its block to `optimizer.step()`. Those of
  /// `with torch.autocast(…)` are among them.
  std::vector<const Node*> lines;
  std::vector<const Node*> computing;  ///< of them, those that compute the loss
  std::vector<const Node*> removed;    ///< zero_grad(), clipping, backward(), optimizer.step()
  const Node* autocast = nullptr;  ///< `with torch.autocast(…, dtype=torch.bfloat16)` around `computing`
  const Node* clip = nullptr;      ///< the greatest norm of the gradient
  /// The variable on which backward() is called: its text; empty if it is called on another expression.
  std::string loss;
  bool is_loss_read = false;  ///< by what stays
  /// The call `model(x)`, if its value is used for more than the loss.
  const Node* outputs = nullptr;
  std::set<const Node*> kept = {};  ///< statements of `computing` that the loop makes as well, for such uses

  /// Whether the loop over the batches is in another function.
  bool is_called() const { return loop == function; }
  /// Whether a node is in a statement of the step that goes.
  bool contains(const Node* node) const;
};

/// The step around a backward pass. Throws Refusal for what a Step of Telar does not do.
TelarStep read_telar_step(const TorchWeaving& weaving, const Node* backward);

/// Finds what is used beside the loss: TelarStep::is_loss_read, outputs, kept. Throws Refusal.
void read_other_uses(const TorchWeaving& weaving, TelarStep& step);

/// The loss of a step, as telar.torch.Step takes it.
struct TelarLoss {
  std::vector<StepArgument> arguments;
  std::string criterion;  ///< the expression of a criterion of torch; empty if the loss is a function
  std::vector<std::string> lines;  ///< of the function, without its `def`
  std::string model;               ///< its parameter for the model
};

TelarLoss loss_of(const TorchWeaving& weaving, const TelarStep& step);

/// What a statement assigns, and what it reads: texts of variables and attributes.
std::set<std::string_view> assigned_by(const Names& names, const Node& statement);
std::set<std::string_view> read_by(const Names& names, const Node& node);
/// Whether a node reads one of these variables.
bool reads_any(const Names& names, const Node& node, const std::set<std::string_view>& texts);

/// Whether `wanted` is true for a node, for one in it, or for one in a function of the program that it calls.
bool reaches_node(const Names& names, const Node& node, const std::function<bool(const Node&)>& wanted);

/// Whether an expression is the step's model, or its optimizer.
bool is_model_of(const TorchWeaving& weaving, const TelarStep& step, const Node* expression);
bool is_optimizer_of(const TorchWeaving& weaving, const TelarStep& step, const Node* expression);
/// Whether a node, or a function of the program that it calls, uses the values of the model or of the
/// optimizer. Modes, learning rates and zero_grad() are no such use.
bool uses_values(const TorchWeaving& weaving, const TelarStep& step, const Node& node);
/// Whether it may change them.
bool changes_values(const TorchWeaving& weaving, const TelarStep& step, const Node& node);
/// Whether a node, or a function that it calls, mentions the model itself.
bool mentions_model(const TorchWeaving& weaving, const TelarStep& step, const Node& node);

/// The outermost loop around a step in its function; the step's own if there is no other.
const Node* outermost_loop(const TelarStep& step);
/// The loops around the calls that lead to a function, and whether there is one (or the calls are not known).
std::vector<const Node*> loops_around_calls(const Names& names, const Node* function);
bool is_repeated(const Names& names, const Node* function);
/// The name in an expression whose value may change from one step to the next; null if none does. `at`: where
/// the expression is.
const Node* changing_name(const TorchWeaving& weaving, const TelarStep& step, const Node& expression);

}  // namespace telar::weave
