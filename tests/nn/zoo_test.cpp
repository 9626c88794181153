#include "telar/nn/zoo.h"
#include "support/paths.h"
#include "support/sentences.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "telar/core/error.h"

namespace telar {
namespace {

using test::sentence_of;

int64_t count(const std::string& name, const Attributes& options, const Shape& sample, int64_t classes) {
  return trainable_count(parameters_of(make_model(name, options, sample, classes)));
}

std::string complaint(const std::string& name, const Attributes& options, const Shape& sample,
                      int64_t classes) {
  return sentence_of([&] { make_model(name, options, sample, classes); });
}

class TorchvisionModel : public testing::TestWithParam<std::string> {};

TEST_P(TorchvisionModel, HasTheParametersOfTorchvisionInOrder) {
  std::ifstream file(test::fixtures() + "/models/parameters.json");
  const auto expected = nlohmann::json::parse(file).at(GetParam());
  const auto parameters = parameters_of(make_model(GetParam(), {}, {3, 224, 224}, 1000));
  ASSERT_EQ(parameters.size(), expected.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(parameters[i].name, expected[i][0].get<std::string>());
    EXPECT_EQ(parameters[i].shape.dims(), expected[i][1].get<std::vector<int64_t>>()) << parameters[i].name;
    EXPECT_EQ(parameters[i].trainable, parameters[i].name.find("running_") == std::string::npos);
  }
}

TEST_P(TorchvisionModel, DeclaresTheSameParametersInBothModes) {
  const Model model = make_model(GetParam(), {}, {3, 224, 224}, 7);
  ModelBuilder training(Mode::training);
  ModelBuilder evaluation(Mode::evaluation);
  for (ModelBuilder* builder : {&training, &evaluation}) {
    model.build(*builder, builder->graph().input("x", {DType::f32, {2, 3, 224, 224}}, true));
  }
  ASSERT_EQ(training.parameters().size(), evaluation.parameters().size());
  for (size_t i = 0; i < training.parameters().size(); ++i) {
    EXPECT_EQ(training.parameters()[i].name, evaluation.parameters()[i].name);
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, TorchvisionModel,
                         testing::Values("alexnet", "resnet18", "resnet34", "resnet50"),
                         [](const auto& instance) { return instance.param; });

TEST(Zoo, ParameterCountsEqualThePublishedOnes) {
  EXPECT_EQ(count("alexnet", {}, {3, 224, 224}, 1000), 61100840);
  EXPECT_EQ(count("resnet18", {}, {3, 224, 224}, 1000), 11689512);
  EXPECT_EQ(count("resnet34", {}, {3, 224, 224}, 1000), 21797672);
  EXPECT_EQ(count("resnet50", {}, {3, 224, 224}, 1000), 25557032);
  EXPECT_EQ(count("lenet5", {}, {1, 32, 32}, 10), 61706);
  EXPECT_EQ(count("lenet5", {}, {1, 28, 28}, 10), 61706);
}

TEST(Zoo, GptSmallHasTheParametersOfItsFormula) {
  const auto formula = [](int64_t layers, int64_t width, int64_t length, int64_t vocabulary) {
    const int64_t block = 12 * width * width + 13 * width;  // weights, biases, and two layer norms
    return layers * block + (2 * vocabulary + length + 2) * width;
  };
  EXPECT_EQ(count("gpt_small", {}, {64}, 256), formula(4, 128, 64, 256));
  const Attributes options{{"layers", int64_t{2}}, {"heads", int64_t{3}}, {"width", int64_t{12}}};
  EXPECT_EQ(count("gpt_small", options, {7}, 11), formula(2, 12, 7, 11));
}

TEST(Zoo, GptSmallTakesTokensAndHeadsThatDivideItsWidth) {
  EXPECT_EQ(complaint("gpt_small", {{"heads", int64_t{3}}}, {8}, 256),
            "model 'gpt_small': width is 128, which does not divide among 3 heads");
  EXPECT_EQ(complaint("gpt_small", {}, {8, 4}, 256),
            "model 'gpt_small' takes samples [T] of token ids, not [8, 4]");
}

TEST(Zoo, ATextClassifierIsATableAndALinearLayer) {
  EXPECT_EQ(count("text_classifier", {{"vocabulary", int64_t{100}}}, {7}, 3), 100 * 64 + 64 * 3 + 3);
  EXPECT_EQ(complaint("text_classifier", {}, {7}, 3),
            "model 'text_classifier' needs the option 'vocabulary', an integer");
  EXPECT_EQ(complaint("text_classifier", {{"vocabulary", int64_t{100}}}, {7, 2}, 3),
            "model 'text_classifier' takes samples [T] of token ids, not [7, 2]");
}

TEST(Zoo, TheSmallStemKeepsTheImageSize) {
  const Model model = make_model("resnet18", {{"stem", std::string("3x3")}}, {3, 32, 32}, 10);
  EXPECT_EQ(trainable_count(parameters_of(model)), 11173962);  // the usual CIFAR-10 ResNet-18
  const Graph graph = forward_graph(model, Mode::evaluation, 5);
  EXPECT_EQ(graph.value(graph.nodes()[0].outputs[0]).type.shape, (Shape{5, 64, 32, 32}));
  EXPECT_EQ(graph.value(graph.output("prediction")).type.shape, (Shape{5, 10}));
}

TEST(Zoo, AResidualNetworkHasTheRequestedWidth) {
  const auto halved = count("resnet18", {{"width", int64_t{32}}}, {3, 224, 224}, 1000);
  // Convolutions between hidden channels have a quarter of the weights, the rest a half.
  EXPECT_EQ(count("resnet18", {{"width", int64_t{64}}}, {3, 224, 224}, 1000), 11689512);
  EXPECT_EQ(halved, (11689512 - 1000 - 9408 - 9600 - 512000) / 4 + 9408 / 2 + 9600 / 2 + 512000 / 2 + 1000);
  EXPECT_NE(complaint("resnet18", {{"width", int64_t{0}}}, {3, 32, 32}, 2).find("at least 1"),
            std::string::npos);
}

TEST(Zoo, AnMlpHasTheRequestedWidths) {
  EXPECT_EQ(count("mlp", {}, {1, 28, 28}, 10), 784 * 256 + 256 + 256 * 256 + 256 + 2560 + 10);
  EXPECT_EQ(count("mlp", {{"hidden", std::vector<int64_t>{}}}, {1, 28, 28}, 10), 7850);
  const auto parameters = parameters_of(make_model("mlp", {{"hidden", std::vector<int64_t>{5, 3}}}, {4}, 2));
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter.name + parameter.shape.str());
  EXPECT_EQ(names, (std::vector<std::string>{"fc1.weight[5, 4]", "fc1.bias[5]", "fc2.weight[3, 5]",
                                             "fc2.bias[3]", "fc3.weight[2, 3]", "fc3.bias[2]"}));
}

TEST(Zoo, AnLstmAcceptsTokensOrFeatures) {
  // the names of torch.nn.LSTM(6, 8, num_layers=2)
  const auto parameters =
      parameters_of(make_model("lstm", {{"hidden", int64_t{8}}, {"layers", int64_t{2}}}, {20, 6}, 3));
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter.name + parameter.shape.str());
  EXPECT_EQ(names, (std::vector<std::string>{
                       "lstm.weight_ih_l0[32, 6]", "lstm.weight_hh_l0[32, 8]", "lstm.bias_ih_l0[32]",
                       "lstm.bias_hh_l0[32]", "lstm.weight_ih_l1[32, 8]", "lstm.weight_hh_l1[32, 8]",
                       "lstm.bias_ih_l1[32]", "lstm.bias_hh_l1[32]", "fc.weight[3, 8]", "fc.bias[3]"}));
  const Model tokens =
      make_model("lstm", {{"vocabulary", int64_t{100}}, {"embedding", int64_t{16}}}, {20}, 3);
  EXPECT_EQ(tokens.input, DType::i32);
  EXPECT_EQ(parameters_of(tokens)[0].name, "embedding.weight");
  EXPECT_EQ(parameters_of(tokens)[0].shape, (Shape{100, 16}));
}

TEST(Zoo, AlexnetOnSmallImagesKeepsTheFeatureSize) {
  const auto parameters = parameters_of(make_model("alexnet", {}, {3, 63, 63}, 10));
  EXPECT_EQ(parameters[10].name, "classifier.1.weight");
  EXPECT_EQ(parameters[10].shape, (Shape{4096, 256}));
}

TEST(Zoo, NamesTheNearestModel) {
  const std::string text = complaint("resnet43", {}, {3, 32, 32}, 10);
  EXPECT_NE(text.find("did you mean 'resnet"), std::string::npos) << text;
  EXPECT_NE(text.find("convnet"), std::string::npos) << text;
}

TEST(Zoo, NamesTheNearestOptionAndItsValidValues) {
  EXPECT_NE(complaint("mlp", {{"hiden", std::vector<int64_t>{3}}}, {4}, 2).find("did you mean 'hidden'?"),
            std::string::npos);
  EXPECT_NE(complaint("mlp", {{"hidden", 2.5}}, {4}, 2).find("a list of integers, each at least 1"),
            std::string::npos);
  EXPECT_NE(complaint("mlp", {{"hidden", std::vector<int64_t>{4, 0}}}, {4}, 2).find("at least 1"),
            std::string::npos);
  EXPECT_NE(complaint("mlp", {{"dropout", 1.0}}, {4}, 2).find("below 1"), std::string::npos);
  EXPECT_NE(complaint("mlp", {{"dropout", 1e-320}}, {4}, 2).find("that f32 can hold"), std::string::npos);
  EXPECT_NE(complaint("resnet18", {{"stem", std::string("5x5")}}, {3, 32, 32}, 2).find("7x7 or 3x3"),
            std::string::npos);
  EXPECT_NE(complaint("lstm", {}, {20}, 2).find("needs the option 'vocabulary'"), std::string::npos);
  EXPECT_NE(complaint("lenet5", {{"width", int64_t{3}}}, {1, 28, 28}, 2).find("no option 'width'"),
            std::string::npos);
}

TEST(Zoo, NamesTheLayerForWhichAnImageIsTooSmall) {
  const std::string lenet = complaint("lenet5", {}, {1, 8, 8}, 10);
  EXPECT_NE(lenet.find("[1, 8, 8]"), std::string::npos) << lenet;
  EXPECT_NE(lenet.find("layer 'conv2'"), std::string::npos) << lenet;
  EXPECT_NE(complaint("alexnet", {}, {3, 62, 62}, 10).find("layer 'features.12'"), std::string::npos);
  EXPECT_NE(complaint("convnet", {}, {784}, 10).find("layer 'conv1'"), std::string::npos);
  EXPECT_NE(complaint("mlp", {}, {0}, 10).find("at least 1"), std::string::npos);
  EXPECT_NE(complaint("mlp", {}, {4}, 0).find("at least 1"), std::string::npos);
}

TEST(Zoo, EveryModelIsListedWithItsOptions) {
  for (const std::string& name : model_names()) EXPECT_NO_THROW(option_names(name));
  EXPECT_EQ(option_names("resnet34"), (std::vector<std::string>{"stem", "width"}));
  EXPECT_THROW(option_names("resnet33"), Error);
}

}  // namespace
}  // namespace telar
