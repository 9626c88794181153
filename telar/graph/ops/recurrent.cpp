#include "telar/graph/ops/recurrent.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/axis.h"

namespace telar {

namespace {

// Inputs of lstm and gru, in this order; biases, lengths and initial states may be absent, and a GRU has no
// cell.
enum RecurrentInput : size_t { kX, kWeightIh, kWeightHh, kBiasIh, kBiasHh, kLengths, kHidden, kCell };

int64_t products(const Shape& x, const Shape& weight_ih, const Shape& weight_hh) {
  return product_of({x[0], x[1], weight_ih.elements() + weight_hh.elements()});
}

void check(std::string_view op, int64_t gates, const std::vector<TensorType>& inputs) {
  const TensorType& x = inputs[kX];
  const TensorType& weight_ih = inputs[kWeightIh];
  const TensorType& weight_hh = inputs[kWeightHh];
  check_floating(op, x);
  if (x.shape.rank() != 3)
    throw user_error("{}: input is {}; it must be [N, T, features]", op, x.shape.str());
  if (weight_hh.shape.rank() != 2 || weight_hh.shape[0] != gates * weight_hh.shape[1]) {
    throw user_error("{}: weight_hh is {}; it must be [{}·hidden, hidden]", op, weight_hh.shape.str(), gates);
  }
  const int64_t rows = weight_hh.shape[0];
  if (weight_ih.shape != Shape{rows, x.shape[2]}) {
    throw user_error("{}: weight_ih is {}; for an input of {} and weight_hh of {} it must be [{}, {}]", op,
                     weight_ih.shape.str(), x.shape.str(), weight_hh.shape.str(), rows, x.shape[2]);
  }
  if (weight_ih.dtype != x.dtype || weight_hh.dtype != x.dtype) {
    throw user_error("{}: input is {} but weights are {} and {}; all must be of one type", op, x.str(),
                     weight_ih.str(), weight_hh.str());
  }
  for (const size_t bias : {kBiasIh, kBiasHh}) {
    if (inputs[bias].shape.rank() != 0 && inputs[bias] != TensorType{DType::f32, {rows}}) {
      throw user_error("{}: a bias is {}; it must be f32 [{}]", op, inputs[bias].str(), rows);
    }
  }
  if (inputs[kLengths].shape.rank() != 0 && inputs[kLengths] != TensorType{DType::i32, {x.shape[0]}}) {
    throw user_error("{}: lengths are {} for an input of {}; they must be i32 [N]", op,
                     inputs[kLengths].str(), x.str());
  }
  const TensorType initial{x.dtype, {x.shape[0], weight_hh.shape[1]}};
  for (size_t state = kHidden; state < inputs.size(); ++state) {
    if (inputs[state].shape.rank() != 0 && inputs[state] != initial) {
      throw user_error("{}: an initial state is {} for an input of {} and weight_hh of {}; it must be {}", op,
                       inputs[state].str(), x.str(), weight_hh.shape.str(), initial.str());
    }
  }
}

class RecurrentBackwardOp final : public Op {
 public:
  RecurrentBackwardOp(std::string_view name, size_t states) : name_(name), states_(states) {}
  std::string_view name() const override { return name_; }
  bool bf16() const override { return true; }
  // inputs: those of forward, its outputs (y, hidden, cell if any, workspace), then the gradients of y,
  // hidden and cell (if any), each possibly absent; outputs: dx, and in f32 dweight_ih, dweight_hh, dbias_ih,
  // dbias_hh (those of the biases, [G·H], even without biases), and dhidden and dcell (if any) of the initial
  // states, even without these
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    const Shape& weight_ih = inputs[kWeightIh].shape;
    const TensorType bias{DType::f32, {weight_ih[0]}};
    const Shape& weight_hh = inputs[kWeightHh].shape;
    std::vector<TensorType> types{inputs[kX], {DType::f32, weight_ih}, {DType::f32, weight_hh}, bias, bias};
    types.insert(types.end(), states_, {inputs[kX].dtype, {inputs[kX].shape[0], weight_hh[1]}});
    return types;
  }
  int64_t multiply_adds(const std::vector<TensorType>& inputs, const std::vector<TensorType>&,
                        const Attributes&) const override {
    return 2 * products(inputs[kX].shape, inputs[kWeightIh].shape, inputs[kWeightHh].shape);
  }

 private:
  std::string_view name_;
  size_t states_;
};

class RecurrentOp final : public Op {
 public:
  RecurrentOp(std::string_view name, int64_t gates, bool has_cell, const RecurrentBackwardOp& backward)
      : name_(name), gates_(gates), has_cell_(has_cell), backward_(backward) {}
  std::string_view name() const override { return name_; }
  bool bf16() const override { return true; }

  // outputs: y, hidden, cell (LSTM), workspace
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    check(name_, gates_, inputs);
    const TensorType& x = inputs[kX];
    const int64_t hidden = inputs[kWeightHh].shape[1];
    const TensorType state{x.dtype, {x.shape[0], hidden}};
    const TensorType workspace{DType::opaque, {x.shape[0], x.shape[1], gates_ * hidden}};
    std::vector<TensorType> types{{x.dtype, {x.shape[0], x.shape[1], hidden}}, state};
    if (has_cell_) types.push_back(state);
    types.push_back(workspace);
    return types;
  }

  void gradient(GradientContext& context) const override {
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < context.input_count(); ++i) inputs.push_back(context.input(i));
    for (size_t i = 0; i < context.output_count(); ++i) inputs.push_back(context.output(i));
    for (size_t i = 0; i + 1 < context.output_count(); ++i) inputs.push_back(context.output_gradient(i));
    const auto gradients = context.builder().add(backward_, inputs);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const size_t input = i < kLengths ? i : i + 1;
      if (context.needs(input)) context.set(input, gradients[i]);
    }
  }

  int64_t multiply_adds(const std::vector<TensorType>& inputs, const std::vector<TensorType>&,
                        const Attributes&) const override {
    return products(inputs[kX].shape, inputs[kWeightIh].shape, inputs[kWeightHh].shape);
  }

 private:
  std::string_view name_;
  int64_t gates_;
  bool has_cell_;
  const RecurrentBackwardOp& backward_;
};

const RecurrentBackwardOp kLstmBackward("lstm_backward", 2);
const RecurrentBackwardOp kGruBackward("gru_backward", 1);
const RecurrentOp kLstm("lstm", 4, true, kLstmBackward);
const RecurrentOp kGru("gru", 3, false, kGruBackward);

std::vector<ValueId> inputs_of(ValueId x, const RecurrentParameters& parameters, ValueId lengths,
                               const RecurrentStates& initial) {
  return {x,       parameters.weight_ih, parameters.weight_hh, parameters.bias_ih, parameters.bias_hh,
          lengths, initial.hidden};
}

}  // namespace

RecurrentResult lstm(GraphBuilder& builder, ValueId x, const RecurrentParameters& parameters, ValueId lengths,
                     const RecurrentStates& initial) {
  auto inputs = inputs_of(x, parameters, lengths, initial);
  inputs.push_back(initial.cell);
  const auto outputs = builder.add(kLstm, inputs);
  return {outputs[0], outputs[1], outputs[2]};
}

RecurrentResult gru(GraphBuilder& builder, ValueId x, const RecurrentParameters& parameters, ValueId lengths,
                    const RecurrentStates& initial) {
  const auto outputs = builder.add(kGru, inputs_of(x, parameters, lengths, initial));
  return {outputs[0], outputs[1], kNoValue};
}

}  // namespace telar
