#include "telar/graph/ops/update.h"

#include "telar/core/error.h"

namespace telar {

namespace {

/// Throws Error (user) if an attribute is missing or of another type.
template <typename Type>
void require(std::string_view op, const Attributes& attributes, const std::string& name, const char* type) {
  if (!attributes.has(name) || !std::holds_alternative<Type>(attributes.at(name)))
    throw user_error("{} needs the attribute {}, which is {}", op, name, type);
}

/// The attribute of a parameter with a learning rate of its own.
constexpr const char* kRate = "rate";

/// A number of the step: f32 [1]. An absent input has rank 0.
bool is_scalar_or_absent(const TensorType& type) {
  return type.dtype == DType::f32 && (type.shape.rank() == 0 || type.shape == Shape{1});
}

/// Inputs: parameter, gradient, optimizer slots …, learning_rate, samples, step, clip_factor (each of the
/// last four may be absent).
class UpdateOp final : public Op {
 public:
  struct Rule {
    std::vector<std::string> slots = {};  ///< state that it always has
    std::string momentum_slot = {};       ///< state that it has with momentum
    std::vector<std::string> reals = {};  ///< attributes
    std::vector<std::string> flags = {};
  };
  UpdateOp(std::string_view name, Rule rule) : name_(name), rule_(std::move(rule)) {}
  std::string_view name() const override { return name_; }
  Effect effect() const override { return Effect::updates; }

  std::vector<std::string> slots(const Attributes& attributes) const {
    std::vector<std::string> slots = rule_.slots;
    if (!rule_.momentum_slot.empty() && attributes.real("momentum") != 0)
      slots.push_back(rule_.momentum_slot);
    return slots;
  }

  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    for (const std::string& real : rule_.reals) require<double>(name_, attributes, real, "a number");
    for (const std::string& flag : rule_.flags) require<bool>(name_, attributes, flag, "true or false");
    if (attributes.has(kRate)) require<double>(name_, attributes, kRate, "a number");
    if (attributes.has("keras")) require<bool>(name_, attributes, "keras", "true or false");
    const size_t tensors = 2 + slots(attributes).size();
    if (inputs.size() != tensors + kUpdateScalars)
      throw user_error("{} has {} inputs, not {}", name_, tensors + kUpdateScalars, inputs.size());
    for (size_t i = 0; i < tensors; ++i) {
      if (inputs[i].dtype != DType::f32 || inputs[i].shape.rank() == 0 || inputs[i] != inputs[0])
        throw user_error("{} has f32 tensors of one shape, not {} and {}", name_, inputs[0].str(),
                         inputs[i].str());
    }
    for (size_t i = tensors; i < inputs.size(); ++i) {
      if (!is_scalar_or_absent(inputs[i]))
        throw user_error("{} takes numbers of the type f32 [1], not {}", name_, inputs[i].str());
    }
    return {};
  }

 private:
  std::string_view name_;
  Rule rule_;
};

/// Σ g² of its inputs.
class SumOfSquaresOp final : public Op {
 public:
  std::string_view name() const override { return "sum_of_squares"; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    for (const TensorType& input : inputs) {
      if (input.dtype != DType::f32 || input.shape.rank() == 0)
        throw user_error("sum_of_squares takes f32 tensors, not {}", input.str());
    }
    return {{DType::f32, {1}}};
  }
};

class ClipFactorOp final : public Op {
 public:
  std::string_view name() const override { return "clip_factor"; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    require<double>(name(), attributes, "max_norm", "a number");
    const TensorType number{DType::f32, {1}};
    if (inputs.size() != 2 || inputs[0] != number || inputs[1] != number)
      throw user_error("clip_factor takes two numbers of the type f32 [1]");
    return {number};
  }
};

const UpdateOp kSgd("sgd_update", {.momentum_slot = "momentum",
                                   .reals = {"momentum", "weight_decay"},
                                   .flags = {"nesterov"}});
const UpdateOp kAdam("adam_update", {.slots = {"adam_m", "adam_v"},
                                     .reals = {"beta1", "beta2", "epsilon", "weight_decay"},
                                     .flags = {"decoupled"}});
const UpdateOp kRmsprop("rmsprop_update", {.slots = {"rmsprop_s"},
                                           .momentum_slot = "rmsprop_b",
                                           .reals = {"alpha", "epsilon", "momentum", "weight_decay"}});
const UpdateOp kAdagrad("adagrad_update",
                        {.slots = {"adagrad_s"}, .reals = {"lr_decay", "epsilon", "weight_decay"}});
const UpdateOp kRunningAverage("running_average_update", {.reals = {"momentum"}});
const SumOfSquaresOp kSumOfSquares;
const ClipFactorOp kClipFactor;

const UpdateOp* find_update(std::string_view name) {
  for (const UpdateOp* op : {&kSgd, &kAdam, &kRmsprop, &kAdagrad, &kRunningAverage})
    if (op->name() == name) return op;
  return nullptr;
}

/// Adds the update of one parameter. The parameter must already be declared in the builder; its gradient and
/// slots have its type.
void add_update(GraphBuilder& builder, const UpdateOp& op, const std::string& parameter,
                const UpdateInputs& scalars, Attributes attributes) {
  const ValueId p = builder.graph().find(ValueKind::parameter, parameter);
  const TensorType type = builder.type(p);
  std::vector<ValueId> inputs{p, builder.gradient(parameter, type)};
  for (const auto& slot : op.slots(attributes))
    inputs.push_back(builder.optimizer_state(slot, parameter, type));
  if (scalars.rate != 1) attributes.set(kRate, scalars.rate);
  for (const ValueId scalar : {scalars.learning_rate, scalars.samples, scalars.step, scalars.clip_factor}) {
    inputs.push_back(scalar);
  }
  builder.add(op, std::move(inputs), std::move(attributes));
}

/// The attributes of a rule that has two forms; PyTorch's has no mark.
Attributes of_form(Attributes attributes, bool keras) {
  if (keras) attributes.set("keras", true);
  return attributes;
}

}  // namespace

void sgd_update(GraphBuilder& builder, const std::string& parameter, const UpdateInputs& inputs,
                const SgdOptions& options) {
  add_update(builder, kSgd, parameter, inputs,
             of_form({{"momentum", options.momentum},
                      {"nesterov", options.nesterov},
                      {"weight_decay", options.weight_decay}},
                     options.keras));
}

void adam_update(GraphBuilder& builder, const std::string& parameter, const UpdateInputs& inputs,
                 const AdamOptions& options) {
  add_update(builder, kAdam, parameter, inputs,
             of_form({{"beta1", options.beta1},
                      {"beta2", options.beta2},
                      {"epsilon", options.epsilon},
                      {"weight_decay", options.weight_decay},
                      {"decoupled", options.decoupled}},
                     options.keras));
}

void rmsprop_update(GraphBuilder& builder, const std::string& parameter, const UpdateInputs& inputs,
                    const RmspropOptions& options) {
  add_update(builder, kRmsprop, parameter, inputs,
             of_form({{"alpha", options.alpha},
                      {"epsilon", options.epsilon},
                      {"momentum", options.momentum},
                      {"weight_decay", options.weight_decay}},
                     options.keras));
}

void adagrad_update(GraphBuilder& builder, const std::string& parameter, const UpdateInputs& inputs,
                    const AdagradOptions& options) {
  add_update(
      builder, kAdagrad, parameter, inputs,
      {{"lr_decay", options.lr_decay}, {"epsilon", options.epsilon}, {"weight_decay", options.weight_decay}});
}

void running_average_update(GraphBuilder& builder, const std::string& parameter, ValueId samples,
                            double momentum) {
  add_update(builder, kRunningAverage, parameter, {kNoValue, samples, kNoValue, kNoValue},
             {{"momentum", momentum}});
}

ValueId sum_of_squares(GraphBuilder& builder, const std::vector<std::string>& parameters) {
  std::vector<ValueId> gradients;
  for (const auto& name : parameters) {
    const ValueId p = builder.graph().find(ValueKind::parameter, name);
    gradients.push_back(builder.gradient(name, builder.type(p)));
  }
  return builder.add1(kSumOfSquares, std::move(gradients));
}

ValueId clip_factor(GraphBuilder& builder, ValueId sum_of_squares, ValueId samples, double max_norm) {
  return builder.add1(kClipFactor, {sum_of_squares, samples}, {{"max_norm", max_norm}});
}

const Op* find_update_operation(std::string_view name) {
  if (name == kSumOfSquares.name()) return &kSumOfSquares;
  if (name == kClipFactor.name()) return &kClipFactor;
  return find_update(name);
}

std::vector<std::string> slots_of_update(const Node& node) {
  return find_update(node.op->name())->slots(node.attributes);
}

}  // namespace telar
