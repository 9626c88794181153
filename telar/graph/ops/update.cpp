#include "telar/graph/ops/update.h"

#include "telar/core/error.h"

namespace telar {

namespace {

/// Inputs: parameter, gradient, optimizer slots …, learning_rate, samples, step, clip_factor (each of the
/// last four may be absent).
class UpdateOp final : public Op {
 public:
  explicit UpdateOp(std::string_view name) : name_(name) {}
  std::string_view name() const override { return name_; }
  Effect effect() const override { return Effect::updates; }
  std::vector<TensorType> infer(const std::vector<TensorType>&, const Attributes&) const override {
    return {};
  }

 private:
  std::string_view name_;
};

class ScalarOp final : public Op {
 public:
  explicit ScalarOp(std::string_view name) : name_(name) {}
  std::string_view name() const override { return name_; }
  std::vector<TensorType> infer(const std::vector<TensorType>&, const Attributes&) const override {
    return {{DType::f32, {1}}};
  }

 private:
  std::string_view name_;
};

const UpdateOp kSgd("sgd_update");
const UpdateOp kAdam("adam_update");
const UpdateOp kRmsprop("rmsprop_update");
const UpdateOp kAdagrad("adagrad_update");
const UpdateOp kRunningAverage("running_average_update");
const ScalarOp kSumOfSquares("sum_of_squares");
const ScalarOp kClipFactor("clip_factor");

/// Adds the update of one parameter. The parameter must already be declared in the builder; its gradient and
/// slots have its type.
void add_update(GraphBuilder& builder, const Op& op, const std::string& parameter,
                const std::vector<std::string>& slots, const UpdateInputs& scalars, Attributes attributes) {
  const ValueId p = builder.graph().find(ValueKind::parameter, parameter);
  const TensorType type = builder.type(p);
  std::vector<ValueId> inputs{p, builder.buffer("gradient/" + parameter, type)};
  for (const auto& slot : slots) inputs.push_back(builder.buffer(slot + "/" + parameter, type));
  for (const ValueId scalar : {scalars.learning_rate, scalars.samples, scalars.step, scalars.clip_factor}) {
    inputs.push_back(scalar);
  }
  builder.add(op, std::move(inputs), std::move(attributes));
}

}  // namespace

void sgd_update(GraphBuilder& builder, const std::string& parameter, const UpdateInputs& inputs,
                const SgdOptions& options) {
  std::vector<std::string> slots;
  if (options.momentum != 0) slots.emplace_back("momentum");
  add_update(builder, kSgd, parameter, slots, inputs,
             {{"momentum", options.momentum},
              {"nesterov", options.nesterov},
              {"weight_decay", options.weight_decay}});
}

void adam_update(GraphBuilder& builder, const std::string& parameter, const UpdateInputs& inputs,
                 const AdamOptions& options) {
  add_update(builder, kAdam, parameter, {"adam_m", "adam_v"}, inputs,
             {{"beta1", options.beta1},
              {"beta2", options.beta2},
              {"epsilon", options.epsilon},
              {"weight_decay", options.weight_decay},
              {"decoupled", options.decoupled}});
}

void rmsprop_update(GraphBuilder& builder, const std::string& parameter, const UpdateInputs& inputs,
                    const RmspropOptions& options) {
  std::vector<std::string> slots{"rmsprop_s"};
  if (options.momentum != 0) slots.emplace_back("rmsprop_b");
  add_update(builder, kRmsprop, parameter, slots, inputs,
             {{"alpha", options.alpha},
              {"epsilon", options.epsilon},
              {"momentum", options.momentum},
              {"weight_decay", options.weight_decay}});
}

void adagrad_update(GraphBuilder& builder, const std::string& parameter, const UpdateInputs& inputs,
                    const AdagradOptions& options) {
  add_update(
      builder, kAdagrad, parameter, {"adagrad_s"}, inputs,
      {{"lr_decay", options.lr_decay}, {"epsilon", options.epsilon}, {"weight_decay", options.weight_decay}});
}

void running_average_update(GraphBuilder& builder, const std::string& parameter, ValueId samples,
                            double momentum) {
  add_update(builder, kRunningAverage, parameter, {}, {kNoValue, samples, kNoValue, kNoValue},
             {{"momentum", momentum}});
}

ValueId sum_of_squares(GraphBuilder& builder, const std::vector<std::string>& parameters) {
  std::vector<ValueId> gradients;
  for (const auto& name : parameters) {
    const ValueId p = builder.graph().find(ValueKind::parameter, name);
    gradients.push_back(builder.buffer("gradient/" + name, TensorType(builder.type(p))));
  }
  return builder.add1(kSumOfSquares, std::move(gradients));
}

ValueId clip_factor(GraphBuilder& builder, ValueId sum_of_squares, ValueId samples, double max_norm) {
  return builder.add1(kClipFactor, {sum_of_squares, samples}, {{"max_norm", max_norm}});
}

}  // namespace telar
