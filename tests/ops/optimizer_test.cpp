#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "ops/run_graph.h"
#include "support/paths.h"
#include "telar/graph/ops/update.h"
#include "telar/io/safetensors.h"

namespace telar::test {

namespace {

using nlohmann::json;

const json& index() {
  static const json parsed = json::parse(std::ifstream(fixtures() + "/ops/optimizers.json"));
  return parsed;
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry : index()["cases"]) found.push_back(entry["name"]);
  return found;
}

void add_rule(GraphBuilder& builder, const json& given, const std::string& parameter,
              const UpdateInputs& inputs) {
  const json& o = given["options"];
  const double decay = o.value("weight_decay", 0.0);
  const double momentum = o.value("momentum", 0.0);
  if (given["optimizer"] == "sgd") {
    sgd_update(builder, parameter, inputs, {momentum, o.value("nesterov", false), decay});
  } else if (given["optimizer"] == "adam") {
    adam_update(builder, parameter, inputs,
                {o["beta1"], o["beta2"], o["epsilon"], decay, o.value("decoupled", false)});
  } else if (given["optimizer"] == "adagrad") {
    adagrad_update(builder, parameter, inputs, {o.value("lr_decay", 0.0), o["epsilon"], decay});
  } else {
    rmsprop_update(builder, parameter, inputs, {o["alpha"], o["epsilon"], momentum, decay});
  }
}

/// The update graph of all parameters of the fixture.
Graph update_graph(const json& given) {
  GraphBuilder builder;
  const TensorType scalar{DType::f32, {1}};
  UpdateInputs inputs{builder.input("learning_rate", scalar, false), builder.input("samples", scalar, false),
                      builder.input("step", scalar, false), kNoValue};
  std::vector<std::string> parameters;
  for (const auto& [name, shape] : index()["parameters"].items()) {
    builder.parameter(name, {DType::f32, Shape(shape.get<std::vector<int64_t>>())});
    parameters.push_back(name);
  }
  const double max_norm = given["max_norm"];
  if (max_norm > 0) {
    inputs.clip_factor = clip_factor(builder, sum_of_squares(builder, parameters), inputs.samples, max_norm);
  }
  for (const auto& name : parameters) add_rule(builder, given, name, inputs);
  return builder.build();
}

/// An arena of the fixture's parameters, one after the other, in their plain layout.
ArenaLayout plain_arena() {
  std::vector<std::pair<std::string, TensorLayout>> tensors;
  for (const auto& [name, dims] : index()["parameters"].items()) {
    const Shape shape(dims.get<std::vector<int64_t>>());
    tensors.emplace_back(name,
                         TensorLayout{shape, static_cast<size_t>(shape.elements()) * 4, "plain", nullptr});
  }
  return ArenaLayout::pack(tensors);
}

/// Arenas of parameters, gradients and optimizer state, and the update that runs on them.
class OptimizerRun {
 public:
  explicit OptimizerRun(const Graph& update)
      : arena_(plain_arena()),
        device_(tested_device()),
        parameters_(device_->allocate(arena_.bytes)),
        gradients_(device_->allocate(arena_.bytes)),
        flags_(device_->allocate(2 * sizeof(float))),
        updater_(device_->compile_update(update, arena_)) {
    for (size_t i = 0; i < state_slots(update).size(); ++i)
      states_.push_back(device_->allocate(arena_.bytes));
  }

  void fill_parameters(const SafetensorsFile& file, const std::string& key) { fill(*parameters_, file, key); }
  void fill_gradients(const SafetensorsFile& file, const std::string& key) { fill(*gradients_, file, key); }

  /// From the next step on, the update checks this loss too, and non_finite() returns the result.
  void watch(float loss) {
    watched_ = true;
    device_->copy_in(std::as_bytes(std::span(&loss, 1)), flags_->data());
  }
  bool non_finite() const { return floats(flags_->data() + sizeof(float), 1)[0] != 0; }

  void set_gradient(const std::string& name, size_t i, float value) {
    device_->copy_in(std::as_bytes(std::span(&value, 1)),
                     gradients_->data() + arena_.find(name).offset + i * sizeof(float));
  }

  /// Applies the update in two parts, cut inside a parameter, as replicas in one process divide the work.
  /// Returns whether both parts found only finite values.
  bool step(float learning_rate, float samples, int step) {
    UpdateBindings bindings{parameters_->data(), gradients_->data(), {}};
    if (watched_) {
      bindings.loss = reinterpret_cast<const float*>(flags_->data());
      bindings.non_finite = reinterpret_cast<float*>(flags_->data()) + 1;
    }
    for (const auto& state : states_) bindings.states.push_back(state->data());
    const size_t middle = arena_.bytes / 2 / kAlignment * kAlignment;
    const double sum = updater_->sum_of_squares(bindings, 0, middle) +
                       updater_->sum_of_squares(bindings, middle, arena_.bytes);
    const UpdateScalars scalars{learning_rate, samples, static_cast<float>(step)};
    const bool upper = updater_->apply(bindings, scalars, sum, middle, arena_.bytes);
    return updater_->apply(bindings, scalars, sum, 0, middle) && upper;
  }

  std::vector<float> parameter(const std::string& name) const {
    const auto& entry = arena_.find(name);
    return floats(parameters_->data() + entry.offset, entry.layout.bytes / sizeof(float));
  }
  std::vector<float> state(size_t index) const {
    return floats(states_[index]->data(), arena_.bytes / sizeof(float));
  }

 private:
  std::vector<float> floats(const std::byte* memory, size_t count) const {
    std::vector<float> values(count);
    device_->copy_out(memory, std::as_writable_bytes(std::span(values)));
    return values;
  }

  void fill(const Memory& arena, const SafetensorsFile& file, const std::string& key) {
    for (const auto& entry : arena_.entries) {
      const NamedTensor tensor = file.read(key + "/" + entry.name);
      device_->copy_in(std::as_bytes(std::span(tensor.data)), arena.data() + entry.offset);
    }
  }

  ArenaLayout arena_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Memory> parameters_;
  std::unique_ptr<Memory> gradients_;
  std::vector<std::unique_ptr<Memory>> states_;
  std::unique_ptr<Memory> flags_;  // loss, non-finite flag
  bool watched_ = false;
  std::unique_ptr<Updater> updater_;
};

class OptimizerTest : public ::testing::TestWithParam<size_t> {};

}  // namespace

TEST_P(OptimizerTest, EqualsPyTorchForFiveSteps) {
  const json& given = index()["cases"][GetParam()];
  const std::string name = given["name"];
  const SafetensorsFile file(fixtures() + "/ops/optimizers.safetensors");
  OptimizerRun run(update_graph(given));
  run.fill_parameters(file, "start");
  for (size_t step = 0; step < index()["learning_rates"].size(); ++step) {
    run.fill_gradients(file, "gradient/" + std::to_string(step));
    run.step(index()["learning_rates"][step], index()["samples"], static_cast<int>(step) + 1);
    for (const auto& entry : index()["parameters"].items()) {
      const NamedTensor expected = file.read(name + "/" + std::to_string(step) + "/" + entry.key());
      EXPECT_LT(relative_error(run.parameter(entry.key()), expected.data), 1e-5)
          << name << ", step " << step + 1 << ": " << entry.key();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, OptimizerTest, ::testing::Range<size_t>(0, names().size()),
                         [](const auto& which) { return names()[which.param]; });

/// A rule with the parameters and gradients of the fixture's first step.
OptimizerRun run_of(
    const std::function<void(GraphBuilder&, const std::string& parameter, const UpdateInputs&)>& add) {
  GraphBuilder builder;
  const TensorType scalar{DType::f32, {1}};
  const UpdateInputs inputs{builder.input("learning_rate", scalar, false),
                            builder.input("samples", scalar, false), builder.input("step", scalar, false),
                            kNoValue};
  for (const auto& [name, shape] : index()["parameters"].items()) {
    builder.parameter(name, {DType::f32, Shape(shape.get<std::vector<int64_t>>())});
    add(builder, name, inputs);
  }
  const SafetensorsFile file(fixtures() + "/ops/optimizers.safetensors");
  OptimizerRun run(builder.build());
  run.fill_parameters(file, "start");
  run.fill_gradients(file, "gradient/0");
  return run;
}

OptimizerRun adam_run() {
  return run_of([](GraphBuilder& builder, const std::string& name, const UpdateInputs& inputs) {
    adam_update(builder, name, inputs, {});
  });
}

/// Keras's rules, in double, as its documentation and sources have them. A rule is called with one number,
/// its gradient, two numbers of state, the learning rate and the step.
using KerasRule = std::function<void(double& p, double g, double& a, double& b, double rate, int step)>;

void expect_keras(OptimizerRun run, const KerasRule& rule) {
  const SafetensorsFile file(fixtures() + "/ops/optimizers.safetensors");
  const auto start = file.read("start/weight").data;
  const auto gradient = file.read("gradient/0/weight").data;
  std::vector<double> p(start.begin(), start.end());
  std::vector<double> a(p.size());
  std::vector<double> b(p.size());
  const std::vector<float> rates{0.1F, 0.1F, 0.02F, 0.0F, 0.05F};  // the momentum keeps the rates of its time
  for (size_t step = 0; step < rates.size(); ++step) {
    run.step(rates[step], 12, static_cast<int>(step) + 1);
    for (size_t i = 0; i < p.size(); ++i)
      rule(p[i], gradient[i] / 12, a[i], b[i], rates[step], static_cast<int>(step) + 1);
    const std::vector<float> expected(p.begin(), p.end());
    EXPECT_LT(relative_error(run.parameter("weight"), expected), 1e-5) << "step " << step + 1;
  }
}

TEST(KerasForm, SgdHasTheLearningRateInItsMomentum) {
  for (const bool nesterov : {false, true}) {
    expect_keras(run_of([&](GraphBuilder& builder, const std::string& name, const UpdateInputs& inputs) {
                   sgd_update(builder, name, inputs, {.momentum = 0.9, .nesterov = nesterov, .keras = true});
                 }),
                 [&](double& p, double g, double& m, double&, double rate, int) {
                   m = 0.9 * m - rate * g;
                   p += nesterov ? 0.9 * m - rate * g : m;
                 });
  }
}

TEST(KerasForm, AdamAddsEpsilonBeforeTheCorrection) {
  expect_keras(run_of([](GraphBuilder& builder, const std::string& name, const UpdateInputs& inputs) {
                 adam_update(builder, name, inputs, {.epsilon = 0.01, .keras = true});
               }),
               [](double& p, double g, double& m, double& v, double rate, int step) {
                 m += (g - m) * 0.1;
                 v += (g * g - v) * 0.001;
                 const double alpha = rate * std::sqrt(1 - std::pow(0.999, step)) / (1 - std::pow(0.9, step));
                 p -= m * alpha / (std::sqrt(v) + 0.01);
               });
}

TEST(KerasForm, RmspropHasEpsilonInTheRootAndTheLearningRateInItsMomentum) {
  for (const double momentum : {0.0, 0.5}) {
    expect_keras(run_of([&](GraphBuilder& builder, const std::string& name, const UpdateInputs& inputs) {
                   rmsprop_update(builder, name, inputs,
                                  {.alpha = 0.9, .epsilon = 0.01, .momentum = momentum, .keras = true});
                 }),
                 [&](double& p, double g, double& s, double& b, double rate, int) {
                   s = 0.9 * s + 0.1 * g * g;
                   b = momentum * b + rate * g / std::sqrt(s + 0.01);
                   p -= b;
                 });
  }
}

class NonFiniteUpdate : public ::testing::TestWithParam<float> {};

TEST_P(NonFiniteUpdate, ReportsANonFiniteGradient) {
  OptimizerRun run = adam_run();
  EXPECT_TRUE(run.step(0.1F, 12, 1));
  run.set_gradient("weight", 7, GetParam());
  EXPECT_FALSE(run.step(0.1F, 12, 2));
}

TEST_P(NonFiniteUpdate, SetsTheGivenFlagForANonFiniteGradient) {
  OptimizerRun run = adam_run();
  run.watch(0.5F);
  EXPECT_TRUE(run.step(0.1F, 12, 1));
  EXPECT_FALSE(run.non_finite());
  run.set_gradient("weight", 7, GetParam());
  EXPECT_TRUE(run.step(0.1F, 12, 2));
  EXPECT_TRUE(run.non_finite());
}

TEST_P(NonFiniteUpdate, ChangesNothingForANonFiniteLoss) {
  OptimizerRun run = adam_run();
  const std::vector<float> start = run.parameter("weight");
  run.watch(0.5F);
  run.step(0.1F, 12, 1);
  const std::vector<float> parameter = run.parameter("weight");
  const std::vector<float> moment = run.state(0);
  EXPECT_NE(parameter, start);
  run.watch(GetParam());
  run.set_gradient("weight", 7, GetParam());
  EXPECT_TRUE(run.step(0.1F, 12, 2));
  EXPECT_EQ(run.parameter("weight"), parameter);
  EXPECT_EQ(run.state(0), moment);
}

INSTANTIATE_TEST_SUITE_P(Values, NonFiniteUpdate,
                         ::testing::Values(std::numeric_limits<float>::quiet_NaN(),
                                           std::numeric_limits<float>::infinity(),
                                           -std::numeric_limits<float>::infinity()));

TEST(RunningAverage, MovesTowardsTheMeanOfTheSamples) {
  GraphBuilder builder;
  builder.parameter("weight", {DType::f32, {3, 5}});
  running_average_update(builder, "weight", builder.input("samples", {DType::f32, {1}}, false), 0.1);
  const SafetensorsFile file(fixtures() + "/ops/optimizers.safetensors");
  OptimizerRun run(builder.build());
  run.fill_parameters(file, "start");
  run.fill_gradients(file, "gradient/0");
  run.step(0, 12, 1);
  auto expected = file.read("start/weight").data;
  const auto sums = file.read("gradient/0/weight").data;
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = 0.9F * expected[i] + 0.1F * sums[i] / 12.0F;
  EXPECT_LT(relative_error(run.parameter("weight"), expected), 1e-6);
}

}  // namespace telar::test
