#include "telar/nn/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/make_session.h"
#include "support/paths.h"
#include "support/sanitizers.h"
#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/nn/layers.h"

namespace telar {
namespace {

using Json = nlohmann::json;
using test::make_session;
using test::says;
using test::sentence_of;
using test::SessionSetup;

/// Losses by PyTorch and metrics by scikit-learn (tests/fixtures/figures/make_figures.py).
const Json& cases() {
  static const Json all = Json::parse(std::ifstream(test::fixtures() + "/figures/figures.json"));
  return all;
}

/// A model whose prediction is x: two layers of the identity, so that strategies have something to divide.
Model identity(int64_t width) {
  return {"identity", {width}, DType::f32, [width](ModelBuilder& model, ValueId x) {
            return linear(model, "fc2", linear(model, "fc1", x, width), width);
          }};
}

void make_identity(Session& session, int64_t width) {
  std::vector<float> weights(static_cast<size_t>(width * width));
  for (int64_t i = 0; i < width; ++i) weights[static_cast<size_t>(i * (width + 1))] = 1;
  for (const char* layer : {"fc1", "fc2"}) {
    session.write_state(StateName{std::string(layer) + ".weight"}, weights);
    session.write_state(StateName{std::string(layer) + ".bias"},
                        std::vector<float>(static_cast<size_t>(width)));
  }
}

class Given {
 public:
  explicit Given(const Json& of)
      : x_(of.at("x").get<std::vector<float>>()), outputs_(of.at("outputs").get<int64_t>()) {
    classes_ = of.contains("class_weights");
    if (classes_) {
      labels_ = of.at("y").get<std::vector<int32_t>>();
    } else {
      targets_ = of.at("y").get<std::vector<float>>();
    }
    ids_.resize(static_cast<size_t>(size()));
  }

  int64_t size() const { return std::ssize(x_) / outputs_; }
  int64_t outputs() const { return outputs_; }
  BatchView view(int64_t begin, int64_t end) const {
    const void* label = classes_ ? static_cast<const void*>(labels_.data() + begin)
                                 : static_cast<const void*>(targets_.data() + begin * outputs_);
    return {end - begin, {{"x", x_.data() + begin * outputs_}, {"label", label}}, ids_.data() + begin};
  }

 private:
  std::vector<float> x_;
  int64_t outputs_;
  bool classes_ = false;
  std::vector<int32_t> labels_;
  std::vector<float> targets_;
  std::vector<int64_t> ids_;
};

StepOptions options_of(const std::string& loss, const Json& of) {
  StepOptions options{.batch = 50, .optimizer = SgdOptions{}};
  const std::map<std::string, Loss> losses = {{"cross_entropy", Loss::cross_entropy},
                                              {"smoothed", Loss::cross_entropy},
                                              {"weighted", Loss::cross_entropy},
                                              {"focal", Loss::focal},
                                              {"weighted_focal", Loss::focal},
                                              {"mean_squared_error", Loss::mean_squared_error},
                                              {"l1", Loss::l1},
                                              {"huber", Loss::huber},
                                              {"binary_focal", Loss::binary_focal},
                                              {"binary_cross_entropy", Loss::binary_cross_entropy}};
  options.loss = losses.at(loss);
  if (loss == "smoothed") options.loss_options.label_smoothing = 0.2;
  if (loss.starts_with("weighted"))
    options.loss_options.class_weights = of.at("class_weights").get<std::vector<double>>();
  if (loss == "focal") options.loss_options.gamma = 1.5;
  if (loss == "weighted_focal") options.loss_options.gamma = 3;
  if (loss == "huber") options.loss_options.delta = 0.75;
  return options;
}

TEST(Losses, AreThoseOfPyTorch) {
  for (const auto& [name, of] : cases().items()) {
    const Given given(of);
    for (const auto& [loss, right] : of.at("losses").items()) {
      const StepOptions options = options_of(loss, of);
      const auto session = make_session(identity(given.outputs()), options, {});
      make_identity(*session, given.outputs());
      const auto samples = static_cast<double>(given.size());
      const StepResult result =
          session->train(given.view(0, given.size()), {.learning_rate = 0, .step = 1, .epoch = 0});
      ASSERT_TRUE(result.finite) << name << " " << loss;
      const double expected = right.at("loss").get<double>();
      EXPECT_NEAR(result.metrics[0] / samples, expected, 2e-6 * std::max(1.0, expected))
          << name << " " << loss;
      // The bias of the last layer is added to each prediction, so its gradient is the sum of theirs.
      const auto gradient = right.at("gradient").get<std::vector<double>>();
      const std::vector<float> found = session->read_gradient("fc2.bias");
      ASSERT_EQ(found.size(), gradient.size());
      for (size_t c = 0; c < gradient.size(); ++c)
        EXPECT_NEAR(found[c] / samples, gradient[c], 1e-6) << name << " " << loss;
    }
  }
}

std::vector<std::string> metrics_for(const std::string& name) {
  if (name == "numbers") return {"mae", "rmse", "r2"};
  if (name.starts_with("label")) return {"precision", "recall", "f1", "auc"};
  return {"precision", "recall", "f1", "confusion_matrix", "auc", "perplexity"};
}

struct Found {
  Figures figures;
  std::vector<double> values;
};

Found figures_of(const std::string& name, const SessionSetup& setup, bool training) {
  const Json& of = cases().at(name);
  const Given given(of);
  StepOptions options = options_of(of.at("losses").begin().key(), of);
  options.metrics = metrics_for(name);
  if (name == "classes") options.top_k = {1, 2};
  if (of.contains("target_mean")) options.target_mean = of.at("target_mean").get<std::vector<double>>();
  const auto session = make_session(identity(given.outputs()), options, setup);
  make_identity(*session, given.outputs());
  std::vector<double> sums(session->metric_names().size());
  for (int64_t begin = 0; begin < given.size(); begin += options.batch) {
    const BatchView view = given.view(begin, std::min(given.size(), begin + options.batch));
    const std::vector<double> more =
        training ? session->train(view, {.learning_rate = 0, .step = 1 + begin, .epoch = 0}).metrics
                 : session->evaluate(view);
    std::ranges::transform(sums, more, sums.begin(), std::plus());
  }
  const Figures figures(options, given.outputs());
  return {figures, figures.of(sums, given.size())};
}

TEST(Figures, AreThoseOfScikitLearn) {
  for (const auto& [name, of] : cases().items()) {
    const Found found = figures_of(name, {}, false);
    std::set<std::string> compared;
    found.figures.for_each(found.values, [&](const Figure& figure, std::span<const double> values) {
      if (!of.at("figures").contains(figure.name)) return;
      compared.insert(figure.name);
      const Json& right = of.at("figures").at(figure.name);
      const auto expected =
          right.is_array() ? right.get<std::vector<double>>() : std::vector<double>{right.get<double>()};
      ASSERT_EQ(expected.size(), values.size()) << name << " " << figure.name;
      const double tolerance = figure.name == "auc" ? 2e-4 : 2e-6;
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(values[i], expected[i], tolerance * std::max(1.0, expected[i]))
            << name << " " << figure.name;
    });
    EXPECT_EQ(compared.size(), of.at("figures").size() - (name == "two_classes" ? 1 : 0)) << name;
  }
}

TEST(Figures, AreTheSameUnderEveryStrategyAndInTraining) {
  const std::vector<SessionSetup> setups = {
      {.replicas = 3, .mirrored = true, .session = {.seed = 11, .shares = {1, 4, 2}}},
      {.replicas = 2, .name = "sharded"},
      {.replicas = 2, .pipeline = true},
      {.replicas = 2,
       .name = "tensor",
       .strategy = {{"ways", int64_t{2}}, {"split", std::vector<std::string>{"fc1=columns", "fc2=columns"}}}},
      {.replicas = 2, .name = "local_sgd"}};
  // The sanitizers see each kind of figure once.
  for (const std::string name : {"classes", "two_classes", "label", "labels", "numbers"}) {
    if (test::kSanitized && name != "two_classes" && name != "numbers") continue;
    const Found single = figures_of(name, {}, false);
    for (const SessionSetup& setup : setups) {
      if (setup.name == "tensor" && name == "label") continue;  // one output cannot be divided
      for (const bool training : {false, true}) {
        const Found other = figures_of(name, setup, training);
        ASSERT_EQ(other.values.size(), single.values.size());
        for (size_t i = 0; i < single.values.size(); ++i)
          EXPECT_NEAR(other.values[i], single.values[i], 1e-6 * std::max(1.0, std::abs(single.values[i])))
              << name << " " << setup.name << setup.replicas << " training " << training << " value " << i;
      }
    }
  }
}

/// Of samples of two classes, [right, predicted, labelled] of each.
TEST(Figures, OfAClassWithoutSamplesAreLeftOut) {
  StepOptions options;
  options.metrics = {"precision", "recall", "f1", "auc", "confusion_matrix"};
  const Figures figures(options, 3);
  std::vector<double> sums(names_of_sums(options, 3).size());
  // loss, accuracy; class 0: 2 of 4 predictions right, all 2 found; class 1: never predicted, 2 samples.
  sums[0] = 1;
  sums[1] = 2;
  for (const auto& [place, count] : {std::pair{2, 2.0}, {5, 4.0}, {8, 2.0}, {9, 2.0}}) sums[place] = count;
  std::map<std::string, std::vector<double>> found;
  figures.for_each(figures.of(sums, 4), [&](const Figure& figure, std::span<const double> values) {
    found[figure.name] = {values.begin(), values.end()};
  });
  EXPECT_EQ(found["precision_macro"], std::vector<double>{0.25});
  EXPECT_EQ(found["recall_macro"], std::vector<double>{0.5});
  EXPECT_EQ(found["precision_micro"], std::vector<double>{0.5});
  EXPECT_EQ(found["f1_per_class"][1], 0);
  EXPECT_TRUE(std::isnan(found["f1_per_class"][2]));
  EXPECT_TRUE(std::isnan(found["auc"][0]));
  EXPECT_EQ(found["confusion_matrix"].size(), 9U);
}

TEST(Figures, RefuseWhatDoesNotFit) {
  const auto mistake = [](const StepOptions& options, int64_t width) {
    return sentence_of([&] { make_training_step(identity(width), options); });
  };
  EXPECT_TRUE(
      says(mistake({.metrics = {"mae"}}, 3), "the metric mae is for numbers, but the labels are classes"));
  EXPECT_TRUE(says(mistake({.loss = Loss::l1, .metrics = {"f1"}}, 3),
                   "the metric f1 is for classes, but the labels are numbers"));
  EXPECT_TRUE(says(mistake({.metrics = {"confusion_matrix"}}, 400),
                   "need 160000 counts for each step, and there may be 131072"));
  EXPECT_TRUE(says(mistake({.metrics = {"auc"}}, 33), "the metric auc is for at most 32 classes, not 33"));
  EXPECT_TRUE(says(mistake({.metrics = {"f2"}}, 3), "there is no metric 'f2'; there are precision, recall"));
  EXPECT_TRUE(says(mistake({.loss_options = {.class_weights = {1, 2}}}, 3),
                   "there are 2 class weights for a prediction of [32, 3]"));
  EXPECT_TRUE(says(mistake({.loss = Loss::huber, .loss_options = {.class_weights = {1}}}, 1),
                   "the labels are numbers"));
  EXPECT_TRUE(says(mistake({.loss = Loss::focal, .loss_options = {.gamma = 0.5}}, 3), "at least 1"));
  EXPECT_TRUE(says(mistake({.loss = Loss::focal, .loss_options = {.label_smoothing = 0.1}}, 3),
                   "label smoothing is 0.1, but the loss is not cross-entropy"));
}

}  // namespace
}  // namespace telar
