// With --global-batch keep, each process has a part of the script's batch, and the average of their gradients
// is that of the mean over the batch. The gradient of a sum over the batch would be too small.
#include <algorithm>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

class SummedLosses {
 public:
  explicit SummedLosses(const TorchWeaving& weaving) : w_(weaving) {}

  void check() const {
    for (const Node* call : w_.names.calls()) {
      if (!is_backward(call)) continue;
      const bool trains =
          std::any_of(w_.program.loops.begin(), w_.program.loops.end(), [&](const TorchLoop& loop) {
            return loop.trains &&
                   (is_inside(call, loop.loop) ||
                    reaches(w_.names, loop.loop, [&](const Node* one) { return one == call; }));
          });
      const Node* sum = trains ? sum_in(call->child("func")->child("value"), 8) : nullptr;
      if (sum != nullptr)
        w_.refuse(
            sum,
            "a sum over the batch is smaller for each process's part; use the mean, or weave without --global-batch keep");
    }
  }

 private:
  /// The sum over the batch that an expression contains without a division; null if none.
  const Node* sum_in(const Node* expression, int depth) const {
    if (expression == nullptr || depth == 0) return nullptr;
    switch (expression->kind) {
      case Kind::name:
      case Kind::attribute: return sum_of_values(expression, depth);
      case Kind::call: return sum_of_call(expression, depth);
      case Kind::unary_op: return sum_in(expression->child("operand"), depth - 1);
      case Kind::if_exp: return sum_in(expression->child("body"), depth - 1);
      case Kind::bin_op: {
        const Node* left = sum_in(expression->child("left"), depth - 1);
        const Node* divisor = expression->child("right");
        if (expression->child("op")->is(Kind::div))
          return divisor->literal == Literal::number ? left : nullptr;
        return left != nullptr ? left : sum_in(divisor, depth - 1);
      }
      default: return nullptr;
    }
  }

  const Node* sum_of_values(const Node* expression, int depth) const {
    for (const Value& value : w_.names.values(w_.names.place(expression))) {
      if (value.part >= 0 || value.element || value.node->is(Kind::class_def) || value.node->is_function())
        continue;
      if (const Node* sum = sum_in(value.node, depth - 1)) return sum;
    }
    return nullptr;
  }

  /// `reduction="sum"`, or PyTorch's old name for it.
  bool asks_for_sum(const Node* call) const {
    const Node* reduction = w_.names.argument(call, "reduction", -1);
    const Node* average = w_.names.argument(call, "size_average", -1);
    return (reduction != nullptr && reduction->text == "sum") ||
           (average != nullptr && average->text == "False");
  }

  const Node* sum_of_call(const Node* call, int depth) const {
    const Node* function = call->child("func");
    const std::string& callee = w_.names.callee(call);
    const size_t given = call->list("args").size() + call->list("keywords").size();
    if (callee == "torch.sum") return given == 1 ? call : nullptr;
    if (asks_for_sum(call)) return call;
    if (const Node* own = w_.names.called_function(call)) return sum_of_returns(own, depth);
    for (const Node* origin : w_.names.origins(function)) {  // a loss that is an object
      if (origin->is(Kind::call) && w_.names.callee(origin).starts_with("torch.nn.") && asks_for_sum(origin))
        return origin;
    }
    if (!function->is(Kind::attribute) || !callee.empty()) return nullptr;
    if (function->text == "sum") return given == 0 ? call : nullptr;
    if (function->text == "scale" && given == 1) return sum_in(call->list("args")[0], depth - 1);
    return nullptr;
  }

  const Node* sum_of_returns(const Node* function, int depth) const {
    const Node* sum = nullptr;
    walk(*function, [&](const Node& node) {
      if (sum == nullptr && node.is(Kind::return_)) sum = sum_in(node.child("value"), depth - 1);
      return sum == nullptr;
    });
    return sum;
  }

  const TorchWeaving& w_;
};

}  // namespace

void check_summed_losses(const TorchWeaving& weaving) { SummedLosses(weaving).check(); }

}  // namespace telar::weave
