#include "telar/io/model_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "../../fuzz/model_input.h"
#include "io/temp_folder.h"
#include "support/corpus.h"
#include "support/sentences.h"
#include "telar/graph/ops/accumulate.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/concat.h"
#include "telar/graph/ops/constant.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/dropout.h"
#include "telar/graph/ops/gather.h"
#include "telar/graph/ops/linear.h"
#include "telar/graph/ops/loss.h"
#include "telar/graph/ops/math.h"
#include "telar/graph/ops/matmul.h"
#include "telar/graph/ops/order.h"
#include "telar/graph/ops/random_normal.h"
#include "telar/graph/ops/recurrent.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"
#include "telar/graph/ops/softmax.h"
#include "telar/graph/ops/stop_gradient.h"
#include "telar/graph/ops/transpose.h"
#include "telar/graph/ops/whole_numbers.h"
#include "telar/io/model_operations.h"
#include "telar/io/model_text.h"
#include "telar/io/safetensors.h"
#include "telar/nn/initialise.h"
#include "telar/nn/initializers.h"
#include "telar/nn/layers.h"
#include "telar/nn/training_step.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

using test::expect_error;
using Json = nlohmann::json;

/// Every operation of a model file that the zoo does not have, and an input of tokens.
Model many_operations() {
  const auto build = [](ModelBuilder& m, ValueId x) {
    const ValueId tokens = m.input("tokens", DType::i32, {4});
    ValueId y = embedding(m, "embedding", tokens, 11, 6);  // [N, 4, 6]
    y = add(m, y, mul(m, softmax(m, scale(m, y, 0.5), -1), sigmoid(m, y)));
    y = matmul(m, y, transpose(m, y, {0, 2, 1}));                      // [N, 4, 4]
    const auto parts = split(m, layer_norm(m, "norm", y), 2, {1, 3});  // [N, 4, 1], [N, 4, 3]
    y = concat(m, {parts[1], parts[0]}, 2);
    const RecurrentResult states = gru(m, "gru", y, {.hidden = 3});
    const RecurrentParameters weights{.weight_ih = m.parameter("weight_ih", {12, 3}, uniform_fan_in(3)),
                                      .weight_hh = m.parameter("weight_hh", {12, 3}, uniform_fan_in(3))};
    y = lstm(m, states.y, weights, kNoValue, {.hidden = states.hidden, .cell = states.hidden}).y;
    y = tanh(m, reduce_max(m, y, {1}));  // [N, 3]
    y = concat(m, {y, reduce_mean(m, flatten(m, silu(m, x)), {1}, true)}, 1);
    y = add(m, y, constant(m, 0.25, {4}));
    const ValueId sample = m.graph().input("sample", {DType::i32, {m.batch(), 2}}, true);
    const ValueId random = m.graph().input("random", {DType::i32, {4}}, false);
    y = add(m, y, mul(m, random_normal(m, {4}, sample, random), stop_gradient(m, y)));
    y = concat(m, {y, fill(m, 1, x, {2})}, 1);
    y = divide(m, mul(m, clamp(m, y, -1, 1), within(m, y, -2, 2)), exp(m, tanh(m, y)));
    y = add(m, y, log(m, softplus(m, y)));
    y = add(m, sin(m, y), cos(m, y));
    y = add(m, atan(m, y), add(m, erf(m, y), log1p(m, sigmoid(m, y))));
    y = add(m, expm1(m, tanh(m, y)), add(m, floor(m, y), round(m, y)));
    const ValueId places = to_indices(m, to_numbers(m, order(m, y, 1, 3, true)));
    y = add(m, y, scatter_add(m, places, gather(m, y, places, 1), 1, 6));
    const ValueId kernel = m.parameter("kernel", {1, 6, 2, 2}, {});
    const ValueId image = reshape(m, y, {0, 1, 2, 3});
    const ConvTranspose2dOptions options{{.stride_h = 3, .stride_w = 2}, 1, 0};  // [N, 6, 6, 6]
    y = add(
        m, y,
        flatten(m, average_pool(m, "pool", conv_transpose2d(m, image, kernel, kNoValue, options), 6, 6, 0)));
    for (const std::string& name : activation_names()) y = add(m, y, scale(m, activation(m, name, y), 0.1));
    return linear(m, "out", dropout(m, "drop", gelu(m, y), 0.25), 3);
  };
  return {"many", {2, 3}, DType::f32, build, [](ModelBuilder& m, ValueId prediction) {
            const ValueId target = m.input("target", DType::f32, {3});
            const ValueId classes = m.input("classes", DType::i32, {});
            const ValueId each = cross_entropy_of_rows(m, prediction, classes, 0.1);
            return add(m, scale(m, mean_squared_error(m, prediction, target), 3), reduce_sum(m, each, {}));
          }};
}

struct NamedModel {
  Model model;
  StepOptions options;
};

std::vector<NamedModel> written_models() {
  StepOptions small;
  small.batch = 4;
  StepOptions classes = small;
  classes.top_k = {1, 3};
  classes.loss_options.label_smoothing = 0.1;
  return {
      {make_model("mlp", {{"hidden", std::vector<int64_t>{8, 7}}, {"dropout", 0.25}}, {1, 4, 4}, 5), small},
      {make_model("convnet", {}, {1, 28, 28}, 10), classes},
      {make_model("resnet18", {{"stem", std::string("3x3")}}, {3, 32, 32}, 10), small},
      {make_model("alexnet", {}, {3, 224, 224}, 10), small},
      {make_model("lstm", {{"hidden", int64_t{9}}}, {7, 5}, 4), small},
      {many_operations(), small}};
}

ModelText text_of_model(const NamedModel& named) {
  ModelText text{named.model.name, graphs_of(named.model, named.options), {}};
  for (const ParameterInfo& parameter : text.graphs.parameters) text.checksums[parameter.name] = "0";
  return text;
}

TEST(ModelText, IsTheSameGraphsAfterATransfer) {
  for (const NamedModel& named : written_models()) {
    const ModelText text = text_of_model(named);
    const ModelText again = model_from_json(to_json(text), "it");
    EXPECT_EQ(again.name, text.name);
    EXPECT_EQ(again.graphs.training.str(), text.graphs.training.str());
    EXPECT_EQ(again.graphs.evaluation.str(), text.graphs.evaluation.str());
    EXPECT_EQ(again.graphs.prediction.str(), text.graphs.prediction.str());
    EXPECT_EQ(again.graphs.metrics, text.graphs.metrics);
    ASSERT_EQ(again.graphs.parameters.size(), text.graphs.parameters.size());
    for (size_t p = 0; p < text.graphs.parameters.size(); ++p) {
      EXPECT_EQ(again.graphs.parameters[p].name, text.graphs.parameters[p].name);
      EXPECT_EQ(again.graphs.parameters[p].shape, text.graphs.parameters[p].shape);
      EXPECT_EQ(again.graphs.parameters[p].trainable, text.graphs.parameters[p].trainable);
    }
    ASSERT_EQ(again.graphs.running_statistics.size(), text.graphs.running_statistics.size());
    for (size_t s = 0; s < text.graphs.running_statistics.size(); ++s)
      EXPECT_EQ(again.graphs.running_statistics[s].momentum, text.graphs.running_statistics[s].momentum);
  }
}

TEST(ModelText, MakesTheTrainingStepOfTheModel) {
  for (NamedModel named : written_models()) {
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      named.options.precision = precision;
      const TrainingStep step = make_training_step(named.model, named.options);
      Model from_text;
      from_text.name = named.model.name;
      from_text.graphs =
          std::make_shared<ModelGraphs>(model_from_json(to_json(text_of_model(named)), "it").graphs);
      const TrainingStep again = make_training_step(from_text, named.options);
      EXPECT_EQ(again.gradient.str(), step.gradient.str());
      EXPECT_EQ(again.update.str(), step.update.str());
      EXPECT_EQ(again.evaluation.str(), step.evaluation.str());
      EXPECT_EQ(again.prediction.str(), step.prediction.str());
      EXPECT_EQ(again.metrics, step.metrics);
      EXPECT_EQ(again.forward_nodes, step.forward_nodes);
    }
  }
}

TEST(ModelText, EveryOperationOfAModelFileIsInOneOfTheseModels) {
  std::string all;
  for (const NamedModel& named : written_models()) all += to_json(text_of_model(named));
  for (const std::string& name : model_operation_names())
    EXPECT_NE(all.find("\"name\":\"" + name + "\""), std::string::npos) << name;
}

/// The text of a small convolutional network with batch norm and dropout.
Json small_text() {
  const Model model{"small", {1, 4, 4}, DType::f32, [](ModelBuilder& m, ValueId x) {
                      x = conv2d(m, "conv", x, {.channels = 2, .kernel = 3});
                      x = dropout(m, "drop", relu(m, batch_norm(m, "norm", x)), 0.5);
                      return linear(m, "out", flatten(m, x), 3);
                    }};
  return Json::parse(to_json(text_of_model({model, {.batch = 2}})));
}

/// The entry of a graph with this name.
Json& entry_of(Json& graph, const std::string& name) {
  for (Json& entry : graph)
    if (entry.at("name") == name) return entry;
  throw std::logic_error("no entry " + name);
}

TEST(ModelText, WhatIsNotAModelIsRefusedWithItsPlace) {
  struct Wrong {
    const char* what;
    std::function<void(Json&)> change;
    std::vector<std::string_view> words;
  };
  const auto training = [](Json& text, const char* name) -> Json& {
    return entry_of(text.at("training"), name);
  };
  const std::vector<Wrong> all = {
      {"form", [](Json& t) { t["form"] = 2; }, {"m.telar has another form"}},
      {"operation",
       [&](Json& t) { training(t, "relu")["name"] = "all_reduce"; },
       {"m.telar, training, entry", "the operation 'all_reduce' is unknown"}},
      {"attribute",
       [&](Json& t) { training(t, "conv2d")["attributes"].erase("stride"); },
       {"conv2d: the attribute stride is missing"}},
      {"attribute range",
       [&](Json& t) {
         training(t, "conv2d")["attributes"]["stride"] = {{"integers", {0, 1}}};
       },
       {"conv2d: the attribute stride must be a list of 2 whole numbers from 1 to 32768"}},
      {"attribute kind",
       [&](Json& t) { training(t, "conv2d")["attributes"]["groups"] = 1.5; },
       {"conv2d: the attribute groups must be a whole number"}},
      {"unknown attribute",
       [&](Json& t) { training(t, "relu")["attributes"]["slope"] = 0.1; },
       {"relu has no attribute slope"}},
      {"stream",
       [&](Json& t) { training(t, "dropout")["attributes"]["stream"] = 5; },
       {"dropout: the attribute stream is not the one"}},
      {"few inputs", [&](Json& t) { training(t, "linear")["inputs"] = {0}; }, {"linear: input 1 is missing"}},
      {"many inputs",
       [&](Json& t) {
         training(t, "relu")["inputs"] = {0, 0};
       },
       {"relu has 2 inputs; it takes 1"}},
      {"dtype", [&](Json& t) { training(t, "sample")["type"] = "f32"; }, {"dropout: input 1 is f32"}},
      {"opaque", [&](Json& t) { training(t, "x")["type"] = "opaque"; }, {"conv2d: input 0 is opaque"}},
      {"shape",
       [&](Json& t) {
         training(t, "out.weight")["shape"] = {3, 9};
       },
       {"layer 'out': linear", "does not fit"}},
      {"no axes", [&](Json& t) { training(t, "out.bias")["shape"] = Json::array(); }, {"shape has 0 axes"}},
      {"listed shape",
       [](Json& t) { t["parameters"][0]["shape"] = {5}; },
       {"'conv.weight' is f32 [2, 1, 3, 3], but it is listed as f32 [5]"}},
      {"not listed",
       [](Json& t) { t["parameters"].erase(0); },
       {"the parameter 'conv.weight' is not listed"}},
      {"listed twice", [](Json& t) { t["parameters"].push_back(t["parameters"][0]); }, {"is listed twice"}},
      {"role", [](Json& t) { t["parameters"][0]["role"] = "king"; }, {"role is \"king\"; it must be"}},
      {"statistic",
       [](Json& t) { t["parameters"][0]["role"] = "statistic", t["parameters"][0]["momentum"] = 0.1; },
       {"nothing is added to 'conv.weight'"}},
      {"momentum",
       [](Json& t) { t["parameters"][0]["role"] = "statistic", t["parameters"][0]["momentum"] = 2; },
       {"momentum is 2; it must be a number from 0 to 1"}},
      {"no loss", [](Json& t) { t["metrics"] = {"accuracy"}; }, {"metrics must begin with 'loss'"}},
      {"name of a metric",
       [](Json& t) { t["metrics"].push_back("top-5\n"); },
       {"a metric is called 'top-5", "a to z, 0 to 9 and _"}},
      {"taken name of a metric",
       [](Json& t) { t["metrics"].push_back("learning_rate"); },
       {"a metric is called 'learning_rate', as a figure of telar's own"}},
      {"metric", [](Json& t) { t["metrics"] = {"loss"}; }, {"'metric/accuracy' is not among the metrics"}},
      {"metric that is not there",
       [](Json& t) { t["metrics"].push_back("top5"); },
       {"nothing is added to 'top5'"}},
      {"input",
       [&](Json& t) { training(t, "label")["name"] = "step"; },
       {"'step' is an input of optimizers"}},
      {"not batched",
       [&](Json& t) { training(t, "label").erase("batched"); },
       {"the input 'label' is i32 [2]"}},
      {"random",
       [&](Json& t) { training(t, "random")["batched"] = true; },
       {"the input 'random' is i32 [4]; it must be i32 [4], not batched"}},
      {"only in training",
       [&](Json& t) { training(t, "label")["name"] = "class"; },
       {"the input 'class' is there only in training"}},
      {"output",
       [](Json& t) {
         t["training"].push_back({{"kind", "output"}, {"name", "y"}, {"value", 0}});
       },
       {"training: it has an output"}},
      {"no output",
       [](Json& t) { t["prediction"].erase(t["prediction"].size() - 1); },
       {"prediction: it must have one output"}},
      {"fixed batch",
       [](Json& t) {
         entry_of(t["prediction"], "reshape")["attributes"]["dims"] = {{"integers", {2, 8}}};
       },
       {"prediction: it holds only for batches of 2; with 3 samples"}},
      {"added twice",
       [](Json& t) {
         Json& graph = t["training"];
         const Json last = graph.back();
         graph.push_back(last);
       },
       {"is added to twice"}},
      {"buffer read",
       [](Json& t) {
         Json& inputs = t["training"].back().at("inputs");
         inputs[1] = inputs[0];
       },
       {"input 1 of accumulate is 'metric/accuracy'; buffers are only added to"}},
      {"batch norm of the batch in evaluation",
       [](Json& t) {
         Json& norm = entry_of(t["prediction"], "batch_norm_inference");
         norm["name"] = "batch_norm";
         norm["inputs"].erase(4);
         norm["inputs"].erase(3);
       },
       {"m.telar, prediction"}},
      {"no batched x",
       [&](Json& t) { training(t, "x").erase("batched"); },
       {"training: there is no input 'x', batched"}},
      {"optimizer state",
       [](Json& t) {
         t["training"].push_back({{"kind", "buffer"}, {"name", "adam_m/w"}, {"type", "f32"}, {"shape", {1}}});
       },
       {"'adam_m/w' is optimizer state"}},
  };
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.what);
    Json text = small_text();
    wrong.change(text);
    expect_error([&] { model_from_json(text.dump(), "m.telar"); }, wrong.words);
    const std::string sentence = test::sentence_of([&] { model_from_json(text.dump(), "m.telar"); });
    EXPECT_TRUE(sentence.starts_with("m.telar")) << sentence;
  }
}

ModelText with_loss(const std::function<ValueId(GraphBuilder&, ValueId losses)>& loss) {
  const auto graph = [&](bool with_loss) {
    GraphBuilder builder;
    const ValueId x = builder.input("x", {DType::f32, {2, 3, 4}}, true);
    const ValueId y = mul(builder, x, builder.parameter("w", {DType::f32, {4}}));
    if (with_loss) {
      accumulate(builder, builder.metric(kLoss), loss(builder, y));
    } else {
      builder.output("prediction", y);
    }
    return builder.build();
  };
  ModelText text;
  text.name = "loss";
  text.graphs.training = text.graphs.evaluation = graph(true);
  text.graphs.prediction = graph(false);
  text.graphs.parameters = {{"w", {4}, true, {}}};
  text.graphs.metrics = {kLoss};
  text.checksums = {{"w", "0"}};
  return text;
}

TEST(ModelText, ALossMustBeASumOverTheSamples) {
  using B = GraphBuilder;
  const auto accepted = [](const std::function<ValueId(B&, ValueId)>& loss) {
    model_from_json(to_json(with_loss(loss)), "it");
  };
  accepted([](B& b, ValueId y) { return reduce_sum(b, y, {}); });
  accepted([](B& b, ValueId y) { return scale(b, reduce_sum(b, mul(b, y, y), {}), 1.0 / 12); });
  accepted([](B& b, ValueId y) { return reduce_sum(b, reduce_mean(b, y, {1, 2}), {}); });
  accepted([](B& b, ValueId y) { return reduce_sum(b, reduce_max(b, transpose(b, y, {2, 0, 1}), {0}), {}); });
  accepted([](B& b, ValueId y) { return reduce_sum(b, softmax(b, reshape(b, y, {-1, 4}), 1), {}); });
  accepted([](B& b, ValueId y) { return reduce_sum(b, matmul(b, y, transpose(b, y, {0, 2, 1})), {}); });
  accepted([](B& b, ValueId y) {
    const auto parts = split(b, transpose(b, y, {1, 0, 2}), 0, {1, 2});
    return reduce_sum(b, reshape(b, parts[0], {-1, 4}), {});
  });
  // Sequences whose first axis is time, with their steps one after another.
  accepted([](B& b, ValueId y) {
    const ValueId steps = reshape(b, transpose(b, y, {1, 0, 2}), {-1, 4});
    const ValueId each = linear(b, steps, constant(b, 0.5, {5, 4}), kNoValue);
    return reduce_sum(b, transpose(b, reshape(b, each, {3, -1, 5}), {1, 0, 2}), {});
  });
  accepted([](B& b, ValueId y) {
    const ValueId tokens = b.input("tokens", {DType::i32, {2, 3}}, true);
    const ValueId logits = reshape(b, transpose(b, y, {1, 0, 2}), {-1, 4});
    return cross_entropy(b, logits, reshape(b, transpose(b, tokens, {1, 0}), {-1}), 0);
  });
  accepted([](B& b, ValueId y) {
    const ValueId tokens = b.input("tokens", {DType::i32, {2, 3}}, true);
    const ValueId weights = b.input("weights", {DType::f32, {2, 3}}, true);
    const ValueId each = cross_entropy_of_rows(b, reshape(b, y, {-1, 4}), reshape(b, tokens, {-1}), 0);
    return reduce_sum(b, mul(b, each, reshape(b, weights, {-1})), {});
  });
  accepted([](B& b, ValueId y) {
    const ValueId places = order(b, y, 2, 2, true);
    return reduce_sum(b, scatter_add(b, places, gather(b, y, places, 2), 2, 4), {});
  });
  accepted([](B& b, ValueId y) {  // the same indices for all samples
    const ValueId places = order(b, b.parameter("w", {DType::f32, {4}}), 0, 2, false);
    return reduce_sum(b, gather(b, y, reshape(b, places, {1, 1, 2}), 2), {});
  });

  const auto refused = [&](const std::function<ValueId(B&, ValueId)>& loss) {
    expect_error(
        [&] { accepted(loss); },
        {"it, training: what is added to the metric 'loss' cannot be shown to be a sum over the samples"});
  };
  refused([](B& b, ValueId y) { return reduce_mean(b, y, {}); });
  refused([](B& b, ValueId y) { return reduce_sum(b, reduce_max(b, y, {0}), {}); });
  refused([](B& b, ValueId y) {
    const ValueId sum = reduce_sum(b, y, {});
    return mul(b, sum, sum);
  });
  refused([](B& b, ValueId y) { return add(b, reduce_sum(b, y, {}), constant(b, 1, {1})); });
  refused([](B& b, ValueId y) { return relu(b, reduce_sum(b, y, {})); });
  refused([](B& b, ValueId y) { return reduce_sum(b, softmax(b, y, 0), {}); });
  refused([](B& b, ValueId y) { return reduce_sum(b, softmax(b, reshape(b, y, {3, -1}), 1), {}); });
  refused([](B& b, ValueId y) {
    const ValueId rows = reshape(b, y, {0, 12});
    return reduce_sum(b, matmul(b, rows, rows, true), {});
  });
  refused([](B& b, ValueId) { return constant(b, 1, {1}); });
  refused([](B& b, ValueId y) { return reduce_sum(b, gather(b, y, order(b, y, 0, 1, true), 0), {}); });
  // The indices belong to other samples than the numbers.
  refused([](B& b, ValueId y) {
    const ValueId steps = reshape(b, transpose(b, y, {1, 0, 2}), {-1, 4});
    return reduce_sum(b, gather(b, steps, order(b, reshape(b, y, {-1, 4}), 1, 1, true), 1), {});
  });
  // The labels belong to other samples than the logits.
  refused([](B& b, ValueId y) {
    const ValueId tokens = b.input("tokens", {DType::i32, {2, 3}}, true);
    const ValueId logits = reshape(b, transpose(b, y, {1, 0, 2}), {-1, 4});
    return cross_entropy(b, logits, reshape(b, tokens, {-1}), 0);
  });
  refused([](B& b, ValueId y) {
    const ValueId tokens = b.input("tokens", {DType::i32, {2, 3}}, true);
    const ValueId logits = reshape(b, transpose(b, y, {1, 0, 2}), {-1, 4});
    return reduce_sum(b, cross_entropy_of_rows(b, logits, reshape(b, tokens, {-1}), 0), {});
  });
  refused([](B& b, ValueId y) {
    const ValueId tokens = b.input("tokens", {DType::i32, {2, 3}}, true);
    const ValueId each = cross_entropy_of_rows(b, reshape(b, y, {-1, 4}), reshape(b, tokens, {-1}), 0);
    return reduce_max(b, each, {0});
  });
  refused([](B& b, ValueId y) {
    const ValueId steps = reshape(b, transpose(b, y, {1, 0, 2}), {-1, 4});
    return reduce_sum(b, reduce_max(b, reshape(b, steps, {-1, 3, 4}), {1}), {});
  });
}

void write(const std::filesystem::path& path, const NamedModel& named) {
  OutputFile file(path, OutputFile::Mode::truncate);
  write_model_file(file, named.model.name, graphs_of(named.model, named.options), initial_values(5));
}

TEST(ModelFileOnDisk, HasTheModelAndItsValues) {
  const test::TempFolder folder;
  const NamedModel named = written_models()[0];
  write(folder / "m.telar", named);
  const ModelFile file = read_model_file(folder / "m.telar");
  EXPECT_EQ(file.model.name, "mlp");
  EXPECT_EQ(file.model.sample, (Shape{1, 4, 4}));
  EXPECT_EQ(file.checksum.size(), 16U);
  const std::vector<ParameterInfo> parameters = parameters_of(file.model);
  const std::vector<ParameterInfo> original = parameters_of(named.model);
  ASSERT_EQ(parameters.size(), original.size());
  for (size_t p = 0; p < parameters.size(); ++p) {
    std::vector<float> values(static_cast<size_t>(parameters[p].shape.elements()));
    std::vector<float> right(values.size());
    initialise(parameters[p], 99, values);
    initialise(original[p], 5, right);
    EXPECT_EQ(values, right) << parameters[p].name;
  }
}

/// Reads all of a file, as a training would.
void read_whole(const std::filesystem::path& path) {
  const ModelFile file = read_model_file(path);
  for (const ParameterInfo& parameter : parameters_of(file.model)) {
    std::vector<float> values(static_cast<size_t>(parameter.shape.elements()));
    initialise(parameter, 1, values);
  }
}

TEST(ModelFileOnDisk, NoDamagedFileIsAccepted) {
  const test::TempFolder folder;
  write(folder / "m.telar",
        {make_model("mlp", {{"hidden", std::vector<int64_t>{3}}}, {1, 2, 2}, 2), {.batch = 2}});
  const std::string good = test::read_text(folder / "m.telar");
  read_whole(folder / "m.telar");
  std::mt19937 random(7);
  const auto any = [&](size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random); };
  for (int i = 0; i < 300; ++i) {
    std::string damaged = good;
    if (i % 10 == 0) {
      damaged.resize(any(good.size()));
    } else {
      damaged[any(good.size())] ^= static_cast<char>(1U << any(8));
    }
    std::ofstream(folder / "d.telar", std::ios::binary) << damaged;
    EXPECT_THROW(read_whole(folder / "d.telar"), Error) << i;
  }
}

TEST(ModelFileOnDisk, OtherFilesAreRefusedWithASentence) {
  const test::TempFolder folder;
  expect_error([&] { read_model_file(folder / "none.telar"); }, {"cannot open", "none.telar"});
  const std::vector<float> numbers(2);
  {
    OutputFile file(folder / "tensors", OutputFile::Mode::create);
    write_safetensors(file, std::vector<NamedView>{{"w", {2}, numbers}});
  }
  expect_error([&] { read_model_file(folder / "tensors"); }, {"tensors contains tensors, but no model"});
}

TEST(ModelInput, TheSeedsOfTheFuzzerAreWhatTheirNamesSay) {
  EXPECT_TRUE(fuzz::read_model(test::corpus("model", "good")));
  for (const char* name : {"operation", "attribute", "input_size", "fixed_batch", "unlisted_parameter",
                           "unused_metric", "no_batched_input", "output_in_training"})
    EXPECT_FALSE(fuzz::read_model(test::corpus("model", std::string("bad_") + name))) << name;
}

/// Numbers, names and structure of the text, damaged at random, as a fuzzer would.
TEST(ModelInput, NoDamagedTextIsAcceptedAsAnother) {
  const std::vector<uint8_t> good = test::corpus("model", "good");
  std::mt19937 random(3);
  const auto any = [&](size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random); };
  for (int i = 0; i < 150; ++i) {
    std::vector<uint8_t> damaged = good;
    const std::string_view digits = "0123456789-,";
    for (size_t changes = 1 + any(3); changes > 0; --changes) {
      size_t at = any(damaged.size());
      while (std::isdigit(damaged[at]) == 0) at = (at + 1) % damaged.size();
      damaged[at] = static_cast<uint8_t>(digits[any(digits.size())]);
    }
    EXPECT_NO_THROW(fuzz::read_model(damaged)) << i;
  }
}

}  // namespace
}  // namespace telar
