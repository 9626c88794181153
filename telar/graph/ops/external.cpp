#include "telar/graph/ops/external.h"

#include <atomic>
#include <map>
#include <mutex>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/constant.h"

namespace telar {

namespace {

class ExternalOp final : public Op {
 public:
  std::string_view name() const override { return "external"; }

  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    if (inputs.empty() || inputs[0].dtype != DType::i32 || inputs[0].shape.rank() != 1)
      throw user_error("external takes the numbers of the samples, i32 [N]");
    for (size_t i = 1; i < inputs.size(); ++i) {
      if (inputs[i].dtype != DType::f32)
        throw user_error("external takes parameters of the type f32, not {}", inputs[i].str());
    }
    const ExternalMode mode = external_mode(attributes);
    if (mode == ExternalMode::prediction) {
      std::vector<int64_t> dims{inputs[0].shape[0]};
      const auto& sample = attributes.integers("sample");
      dims.insert(dims.end(), sample.begin(), sample.end());
      return {{DType::f32, Shape(dims)}};
    }
    std::vector<TensorType> outputs{{DType::f32, {1}}};
    if (mode == ExternalMode::training) outputs.insert(outputs.end(), inputs.begin() + 1, inputs.end());
    return outputs;
  }

  void gradient(GradientContext& context) const override {
    if (external_mode(context.attributes()) != ExternalMode::training)
      throw user_error("external computes gradients only in training");
    if (!is_one(context.builder().graph(), context.output_gradient(0)))
      throw user_error("the loss of external must be the loss of the graph as it is");
    for (size_t i = 1; i < context.input_count(); ++i)
      if (context.needs(i)) context.set(i, context.output(i));
  }
};

const ExternalOp kExternal;

/// The functions by their names.
class Functions {
 public:
  std::string add(ExternalFunction function) {
    const std::lock_guard lock(mutex_);
    std::string name = fmt::format("function {}", ++count_);
    functions_[name] = std::make_shared<const ExternalFunction>(std::move(function));
    return name;
  }
  void remove(const std::string& name) {
    std::shared_ptr<const ExternalFunction> last;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    last = std::exchange(functions_[name], nullptr);
    functions_.erase(name);
  }
  std::shared_ptr<const ExternalFunction> find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = functions_.find(name);
    return found == functions_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  int64_t count_ = 0;
  std::map<std::string, std::shared_ptr<const ExternalFunction>> functions_;
};

Functions& functions() {
  static Functions all;
  return all;
}

constexpr int64_t kTraining = 0;
constexpr int64_t kEvaluation = 1;
constexpr int64_t kPrediction = 2;

std::vector<ValueId> with_rows(ValueId rows, const std::vector<ValueId>& parameters) {
  std::vector<ValueId> inputs{rows};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return inputs;
}

}  // namespace

ExternalRegistration::ExternalRegistration(ExternalFunction function)
    : name_(functions().add(std::move(function))) {}

ExternalRegistration::~ExternalRegistration() { functions().remove(name_); }

std::shared_ptr<const ExternalFunction> external_function(const std::string& name) {
  auto found = functions().find(name);
  if (found == nullptr) throw run_error("the external function '{}' has ended", name);
  return found;
}

std::vector<ValueId> external_loss(GraphBuilder& builder, ValueId rows,
                                   const std::vector<ValueId>& parameters, const std::string& function,
                                   ExternalMode mode) {
  return builder.add(
      kExternal, with_rows(rows, parameters),
      {{"function", function}, {"mode", mode == ExternalMode::training ? kTraining : kEvaluation}});
}

ValueId external_prediction(GraphBuilder& builder, ValueId rows, const std::vector<ValueId>& parameters,
                            const std::string& function, const Shape& sample) {
  return builder.add1(kExternal, with_rows(rows, parameters),
                      {{"function", function}, {"mode", kPrediction}, {"sample", sample.dims()}});
}

ExternalMode external_mode(const Attributes& attributes) {
  const int64_t mode = attributes.integer("mode");
  return mode == kTraining     ? ExternalMode::training
         : mode == kEvaluation ? ExternalMode::evaluation
                               : ExternalMode::prediction;
}

}  // namespace telar
