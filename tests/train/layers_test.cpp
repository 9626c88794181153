#include <gtest/gtest.h>

#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/nn/layers.h"
#include "telar/train/job_model.h"
#include "telar/train/job_reader.h"

namespace telar {
namespace {

using test::says;
using test::sentence_of;

Job job_of(const std::string& layers) {
  return parse_job("data: fashion-mnist\nmodel:\n  layers:\n" + layers, "job.yaml");
}

Model model_of(const std::string& layers) {
  return model_of_job(job_of(layers).model, {.features = {1, 28, 28}, .classes = 10});
}

std::string mistake_in_layers(const std::string& layers) {
  return sentence_of([&] { model_of(layers); });
}

TEST(InlineLayers, BuildTheSameGraphAsCpp) {
  const Model inline_model = model_of(
      "    - {name: conv1, type: conv2d, channels: 4, kernel: 3, padding: 1}\n"
      "    - {name: act, type: relu}\n"
      "    - {name: conv2, type: conv2d, channels: 4, kernel: [3, 1], padding: [1, 0], bias: false}\n"
      "    - {name: sum, type: add, inputs: [act, conv2]}\n"
      "    - {name: pool, type: max_pool, kernel: 4}\n"
      "    - {name: flat, type: flatten}\n"
      "    - {name: drop, type: dropout, rate: 0.25}\n"
      "    - {name: fc, type: linear, features: 10}\n");
  const Model by_hand{"layers", {1, 28, 28}, DType::f32, [](ModelBuilder& m, ValueId x) {
                        const auto in = [&](const char* name, auto add) {
                          const ScopeGuard scope(m, name);
                          return add();
                        };
                        x = conv2d(m, "conv1", x, {.channels = 4, .kernel = 3, .padding = 1});
                        x = in("act", [&] { return relu(m, x); });
                        const ValueId y =
                            conv2d(m, "conv2", x,
                                   {.channels = 4, .kernel = {3, 1}, .padding = {1, 0}, .bias = false});
                        x = in("sum", [&] { return add(m, x, y); });
                        x = max_pool(m, "pool", x, 4, 4);
                        x = in("flat", [&] { return flatten(m, x); });
                        return linear(m, "fc", dropout(m, "drop", x, 0.25), 10);
                      }};
  EXPECT_EQ(forward_graph(inline_model, Mode::training, 5).str(),
            forward_graph(by_hand, Mode::training, 5).str());
}

TEST(InlineLayers, AnEmptyListIsRefusedWhereANumberIsNeeded) {
  for (const std::string option : {"kernel: []", "kernel: 3, padding: []", "kernel: 3, stride: []"})
    EXPECT_TRUE(says(sentence_of([&] { job_of("    - {type: conv2d, channels: 4, " + option + "}\n"); }),
                     "has 0 numbers; it must have 1 to 2"));
  EXPECT_TRUE(says(sentence_of([] { job_of("    - {type: transpose, axes: []}\n"); }), "axes has 0 numbers"));
  EXPECT_EQ(sentence_of([] { job_of("    - {type: max_pool, kernel: 2, stride: []}\n"); }), "")
      << "the kernel";
}

TEST(InlineLayers, UseThePreviousLayerUnlessFromIsGiven) {
  const ModelJob model = job_of(
                             "    - {type: flatten}\n    - {type: linear, features: 8}\n    - {type: relu}\n"
                             "    - {type: linear, features: 8, from: flatten1}\n"
                             "    - {type: add, inputs: [relu1, linear2]}\n")
                             .model;
  EXPECT_EQ(model.layers[0].inputs, std::vector<std::string>{"input"});
  EXPECT_EQ(model.layers[2].inputs, std::vector<std::string>{"linear1"});
  EXPECT_EQ(model.layers[3].inputs, std::vector<std::string>{"flatten1"});
  EXPECT_EQ(model.layers[4].inputs, (std::vector<std::string>{"relu1", "linear2"}));
}

TEST(InlineLayers, MistakesNameTheLineTheLayerAndTheValidForm) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> wrong = {
      {"    - {type: liner, features: 10}\n", {"job.yaml:4", "'liner'", "did you mean 'linear'"}},
      {"    - {type: linear, feature: 10}\n",
       {"job.yaml:4", "unknown key 'feature' of a linear layer", "'features'"}},
      {"    - {type: linear}\n", {"job.yaml:4", "needs 'features'"}},
      {"    - {features: 10}\n", {"job.yaml:4", "with a 'type'"}},
      {"    - {type: linear, features: 0}\n", {"job.yaml:4", "model.layers.0.features is '0'", "at least 1"}},
      {"    - {type: conv2d, channels: 4, kernel: [3, 3, 3]}\n",
       {"job.yaml:4", "kernel has 3 numbers", "1 to 2"}},
      {"    - {type: flatten}\n    - {type: add, inputs: [flatten1]}\n",
       {"job.yaml:5", "1 input", "at least 2"}},
      {"    - {type: flatten, name: a}\n    - {type: relu, from: b}\n",
       {"job.yaml:5", "from 'b'", "no earlier layer"}},
      {"    - {type: flatten, name: a}\n    - {type: relu, name: a}\n", {"job.yaml:5", "'a' is taken"}},
      {"    - {type: flatten, name: 'a/b'}\n", {"job.yaml:4", "name of letters"}},
      {"    - {type: flatten}\n    - {type: conv2d, channels: 4, kernel: 3, name: late}\n",
       {"job.yaml:5", "layer 'late'"}},
      {"    - {type: conv2d, name: big, channels: 4, kernel: 99}\n", {"job.yaml:4", "layer 'big'", "99"}},
      {"    - {type: flatten}\n    - {type: linear, features: 7}\n", {"job.yaml:4", "[1, 7]", "[1, 10]"}},
      {"    []\n", {"job.yaml:4", "empty"}},
  };
  for (const auto& [layers, parts] : wrong) {
    const std::string sentence = mistake_in_layers(layers);
    EXPECT_NE(sentence, "") << layers;
    for (const std::string& part : parts) EXPECT_TRUE(says(sentence, part)) << layers;
  }
}

TEST(InlineLayers, RecurrentBranchAndReduceBuild) {
  const Model model = model_of(
      "    - {type: reshape, shape: [28, 28], name: rows}\n"
      "    - {type: lstm, hidden: 8, name: last}\n"
      "    - {type: gru, hidden: 8, output: sequence, from: rows}\n"
      "    - {type: mean, axes: [1], name: mean}\n"
      "    - {type: concat, inputs: [last, mean]}\n"
      "    - {type: layer_norm}\n"
      "    - {type: linear, features: 10}\n");
  const Graph graph = forward_graph(model, Mode::evaluation, 3);
  EXPECT_EQ(graph.value(graph.output("prediction")).type.shape, (Shape{3, 10}));
}

TEST(Zoo, AModelThatDoesNotFitTheSamplesIsReportedWithItsLine) {
  const Job job = parse_job("data: fashion-mnist\nmodel: alexnet\n", "job.yaml");
  try {
    model_of_job(job.model, {.features = {1, 28, 28}, .classes = 10});
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(says(error.what(), "job.yaml:2"));
    EXPECT_TRUE(says(error.what(), "alexnet"));
  }
}

}  // namespace
}  // namespace telar
