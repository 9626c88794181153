// Loops of ours in cases that the operations' fixtures do not cover: channels last, reductions in several
// pieces, long rows, frequent tokens. Compared with the CPU device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/run_graph.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/fuse_activations.h"
#include "telar/graph/ops/accumulate.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/concat.h"
#include "telar/graph/ops/constant.h"
#include "telar/graph/ops/convert.h"
#include "telar/graph/ops/dropout.h"
#include "telar/graph/ops/embedding.h"
#include "telar/graph/ops/gather.h"
#include "telar/graph/ops/layer_norm.h"
#include "telar/graph/ops/loss.h"
#include "telar/graph/ops/math.h"
#include "telar/graph/ops/order.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"
#include "telar/graph/ops/softmax.h"
#include "telar/graph/ops/transpose.h"
#include "telar/graph/ops/whole_numbers.h"

namespace telar::test {

namespace {

using Integers = std::map<std::string, std::vector<int32_t>>;
using Results = std::map<std::string, std::vector<float>>;

class Host final : public HostOperations {
 public:
  void communicate(const Node& /*node*/, std::span<float> /*memory*/) override {}
};

/// A graph of inputs only, compiled for a device; f32 inputs are normally distributed.
class InputRun {
 public:
  InputRun(const Graph& graph, std::unique_ptr<Device> device, const Integers& integers)
      : graph_(graph), device_(std::move(device)) {
    device_->enter();
    executable_ = device_->compile(graph_, {});
    activations_ = device_->allocate(executable_->activation_bytes());
    Bindings bindings;
    bindings.activations = {activations_->data(), activations_->size()};
    context_ = executable_->bind(ArenaLayout::pack({}), bindings);
    for (const ValueId id : graph_.of_kind(ValueKind::input)) {
      const Value& value = graph_.value(id);
      const auto given = integers.find(value.name);
      if (given != integers.end()) {
        context_->set_input(value.name, given->second.data());
        continue;
      }
      floats_.push_back(numbers(value.type.shape.elements(), floats_.size()));
      context_->set_input(value.name, floats_.back().data());
    }
  }

  Results run() {
    context_->run(host_);
    Results results;
    for (const auto& [name, value] : graph_.outputs()) results[name] = context_->output(name);
    return results;
  }
  std::optional<std::string> find_non_finite() { return context_->find_non_finite(host_); }

 private:
  Graph graph_;
  Host host_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<Memory> activations_;
  std::vector<std::vector<float>> floats_;
  std::unique_ptr<Context> context_;
};

class Build {
 public:
  explicit Build(DType compute) : compute_(compute) {}

  ValueId input(const std::string& name, const Shape& shape) {
    const ValueId x = builder.input(name, {DType::f32, shape}, false);
    wanted.push_back(x);
    return compute_ == DType::f32 ? x : convert(builder, x, compute_);
  }
  /// [N, C, H, W] with channels last on a GPU, through a transposition that moves no data.
  ValueId images(const std::string& name, const Shape& shape) {
    const ValueId x = input(name, {shape[0], shape[2], shape[3], shape[1]});
    return transpose(builder, x, {0, 3, 1, 2});
  }
  ValueId integers(const std::string& name, const Shape& shape) {
    return builder.input(name, {DType::i32, shape}, false);
  }

  GraphBuilder builder;
  std::vector<ValueId> wanted;  ///< the inputs that have a gradient

 private:
  DType compute_;
};

using BuildOutput = std::function<ValueId(Build&)>;

/// A value, and the gradients of a weighted sum of its elements.
Graph with_gradients(const BuildOutput& output, DType compute) {
  Build build(compute);
  ValueId y = output(build);
  if (build.builder.type(y).dtype != DType::f32) y = convert(build.builder, y, DType::f32);
  build.builder.output("y", y);
  const ValueId weights = build.builder.input("weights", build.builder.type(y), false);
  const ValueId loss = reduce_sum(build.builder, mul(build.builder, y, weights), {});
  return fuse_activations(differentiate(build.builder.build(), loss, build.wanted));
}

void expect_alike(const Results& found, const Results& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, right] : wanted)
    EXPECT_LE(relative_error(found.at(name), right), tolerance) << name;
}

void expect_as_on_processors(const std::string& name, const BuildOutput& output,
                             const Integers& integers = {}) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(name + (compute == DType::f32 ? " f32" : " bf16"));
    const Graph right = with_gradients(output, DType::f32);
    expect_alike(InputRun(with_gradients(output, compute), tested_device(), integers).run(),
                 InputRun(right, make_cpu_device(1, {}), integers).run(),
                 compute == DType::f32 ? 1e-5 : 2e-2);
  }
}

}  // namespace

TEST(CudaLoops, AddAndMultiplyWhereChannelsLieLast) {
  expect_as_on_processors("residual", [](Build& b) {
    return relu(b.builder, add(b.builder, b.images("a", {3, 5, 4, 7}), b.images("b", {3, 5, 4, 7})));
  });
  expect_as_on_processors("of two layouts", [](Build& b) {
    return mul(b.builder, b.input("a", {3, 5, 4, 7}), b.images("b", {3, 5, 4, 7}));
  });
  expect_as_on_processors("a number for each channel", [](Build& b) {
    const ValueId x = add(b.builder, b.images("x", {3, 5, 4, 7}), b.input("bias", {5, 1, 1}));
    return mul(b.builder, b.images("scale", {3, 5, 1, 1}), x);
  });
  expect_as_on_processors("neither is whole", [](Build& b) {
    return mul(b.builder, b.images("rows", {3, 5, 4, 1}), b.input("columns", {5, 1, 7}));
  });
}

TEST(CudaLoops, ReduceWhereChannelsLieLast) {
  for (const std::vector<int64_t>& axes : std::vector<std::vector<int64_t>>{{1}, {2, 3}, {0, 2, 3}, {0, 1}}) {
    expect_as_on_processors("sum", [&](Build& b) {
      return reduce_sum(b.builder, b.images("x", {3, 5, 4, 7}), axes, true);
    });
    expect_as_on_processors("mean", [&](Build& b) {
      return reduce_mean(b.builder, b.images("x", {3, 5, 4, 7}), axes);
    });
  }
  expect_as_on_processors("axes of one element", [](Build& b) {
    return reduce_mean(b.builder, b.images("x", {3, 5, 1, 1}), {2, 3});
  });
}

TEST(CudaLoops, ReduceInPieces) {
  expect_as_on_processors("columns", [](Build& b) {
    return reduce_sum(b.builder, b.input("x", {3001, 100}), {0});
  });
  expect_as_on_processors("rows", [](Build& b) {
    return reduce_mean(b.builder, b.input("x", {3, 70001}), {1});
  });
  expect_as_on_processors("short rows", [](Build& b) {
    return reduce_sum(b.builder, b.input("x", {999, 3}), {1});
  });
  expect_as_on_processors("images", [](Build& b) {
    return reduce_sum(b.builder, b.images("x", {40, 20, 16, 16}), {0, 2, 3});
  });
}

TEST(CudaLoops, FindMaximaInPieces) {
  const auto largest = [](const Shape& shape, int64_t axis) {
    // Few different integers: many elements equal the maximum, in bf16, too.
    Build b(DType::f32);
    const ValueId x = b.input("x", shape);
    const ValueId y = reduce_max(b.builder, relu(b.builder, scale(b.builder, x, -1)), {axis});
    b.builder.output("y", y);
    const ValueId loss = reduce_sum(b.builder, y, {});
    const Graph graph = differentiate(b.builder.build(), loss, b.wanted);
    expect_alike(InputRun(graph, tested_device(), {}).run(),
                 InputRun(graph, make_cpu_device(1, {}), {}).run(), 1e-6);
  };
  largest({3001, 100}, 0);
  largest({3, 70001}, 1);
  largest({20, 30, 40}, 1);
}

TEST(CudaLoops, NormaliseRows) {
  expect_as_on_processors("softmax of long rows", [](Build& b) {
    return softmax(b.builder, b.input("x", {5, 3000}), 1);
  });
  for (const int64_t axis : {0, 1, 2, 3}) {
    expect_as_on_processors("softmax of images", [&](Build& b) {
      return softmax(b.builder, b.images("x", {3, 5, 4, 7}), axis);
    });
  }
  const auto norm = [](const Shape& shape) {
    return [=](Build& b) {
      const Shape features{shape[shape.rank() - 1]};
      const ValueId gamma = b.builder.input("gamma", {DType::f32, features}, false);
      const ValueId beta = b.builder.input("beta", {DType::f32, features}, false);
      b.wanted.insert(b.wanted.end(), {gamma, beta});
      return layer_norm(b.builder, b.input("x", shape), gamma, beta, 1e-5);
    };
  };
  expect_as_on_processors("layer norm of many rows", norm({3001, 40}));
  expect_as_on_processors("layer norm of long rows", norm({2, 3, 1504}));
  expect_as_on_processors("layer norm of rows that are not of whole packs", norm({70, 33}));
}

TEST(CudaLoops, NormaliseWhatIsFarFromZero) {
  Build b(DType::f32);
  const ValueId far = add(b.builder, b.input("x", {4, 300}), constant(b.builder, 3000, {1}));
  const ValueId one = constant(b.builder, 1, {300});
  const ValueId none = constant(b.builder, 0, {300});
  b.builder.output("y", layer_norm(b.builder, far, one, none, 1e-5));
  const Graph graph = b.builder.build();
  // The mean of numbers around 3000 has no more digits; with differences of squares the error would be a
  // quarter.
  expect_alike(InputRun(graph, tested_device(), {}).run(), InputRun(graph, make_cpu_device(1, {}), {}).run(),
               2e-3);
}

TEST(CudaLoops, PutTogetherAndTakeApartWhereChannelsLieLast) {
  for (const int64_t axis : {0, 1, 2, 3}) {
    expect_as_on_processors("concat", [&](Build& b) {
      return concat(b.builder, {b.images("a", {2, 4, 6, 8}), b.images("b", {2, 4, 6, 8})}, axis);
    });
    expect_as_on_processors("split", [&](Build& b) {
      const auto parts = split(b.builder, b.images("x", {5, 5, 5, 5}), axis, {1, 2, 2});
      return add(b.builder, relu(b.builder, parts[1]), parts[2]);
    });
  }
  expect_as_on_processors("flatten", [](Build& b) {
    return flatten(b.builder, b.images("x", {3, 5, 1, 1}));
  });
  expect_as_on_processors("heads of attention", [](Build& b) {
    return transpose(b.builder, reshape(b.builder, b.input("x", {6, 80}), {2, 3, 5, 16}), {0, 2, 1, 3});
  });
  expect_as_on_processors("permutations", [](Build& b) {
    const ValueId x = transpose(b.builder, b.images("x", {3, 5, 4, 7}), {1, 0, 3, 2});
    return transpose(b.builder, transpose(b.builder, x, {0, 2, 3, 1}), {3, 0, 2, 1});
  });
}

TEST(CudaLoops, LookUpTokensThatComeOften) {
  for (const int64_t features : {5, 8}) {
    std::vector<int32_t> tokens(2000);
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = i % 5 == 0 ? static_cast<int32_t>(i * 7 % 50) : i % 3 == 0 ? 0 : 37;
    expect_as_on_processors(
        "embedding",
        [=](Build& b) {
          return embedding(b.builder, b.integers("tokens", {20, 100}), b.input("table", {51, features}));
        },
        {{"tokens", tokens}});
  }
}

TEST(CudaLoops, MakeNaNOfATokenThatIsNotInTheTable) {
  Build b(DType::f32);
  const ValueId tokens = b.integers("tokens", {4});
  b.builder.set_scope("words");
  const ValueId y = embedding(b.builder, tokens, b.input("table", {5, 3}));
  b.builder.output("y", y);
  const ValueId loss = reduce_sum(b.builder, y, {});
  const Graph graph = differentiate(b.builder.build(), loss, b.wanted);
  InputRun run(graph, tested_device(), {{"tokens", {0, 5, 4, -1}}});
  const Results results = run.run();
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(std::isnan(results.at("y")[i]), i / 3 % 2 == 1) << i;
  EXPECT_EQ(run.find_non_finite(), "layer 'words' (embedding)");
}

TEST(CudaLoops, OrderAndGatherAsProcessorsDo) {
  const auto compare = [](const BuildOutput& output, const Integers& integers) {
    const Graph graph = with_gradients(output, DType::f32);
    expect_alike(InputRun(graph, tested_device(), integers).run(),
                 InputRun(graph, make_cpu_device(1, {}), integers).run(), 1e-6);
  };
  for (const int64_t count : {1, 3, 70}) {
    for (const bool descending : {false, true}) {
      compare(
          [=](Build& b) {
            const ValueId keys = b.builder.input("keys", {DType::f32, {6, 70, 5}}, false);
            const ValueId some_alike = round(b.builder, scale(b.builder, keys, 4));
            const ValueId places = order(b.builder, some_alike, 1, count, descending);
            const ValueId y = gather(b.builder, b.input("x", {6, 70, 5}), places, 1);
            const ValueId again = to_indices(b.builder, to_numbers(b.builder, places));
            return scatter_add(b.builder, again, mul(b.builder, y, y), 1, 80);
          },
          {});
    }
  }
  std::vector<int32_t> indices(2 * 9);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int32_t>(i * i % 7);
  compare(
      [](Build& b) {
        const ValueId shared = reshape(b.builder, b.integers("indices", {2, 9}), {1, 2, 9, 1});
        return gather(b.builder, b.input("x", {3, 2, 7, 4}), shared, 2);
      },
      {{"indices", indices}});
}

TEST(CudaLoops, LoseAsProcessorsDo) {
  std::vector<int32_t> labels(300);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i * 613 % 1200);
  const auto classification = [&](double smoothing) {
    Build b(DType::f32);
    const ValueId logits = scale(b.builder, b.input("logits", {300, 1200}), 3);
    const ValueId label = b.integers("label", {300});
    const ValueId loss = cross_entropy(b.builder, logits, label, smoothing);
    b.builder.output("loss", loss);
    b.builder.output("first", top_k_correct(b.builder, logits, label, 1));
    b.builder.output("half", top_k_correct(b.builder, logits, label, 600));
    const Graph graph = differentiate(b.builder.build(), loss, b.wanted);
    const Integers integers{{"label", labels}};
    expect_alike(InputRun(graph, tested_device(), integers).run(),
                 InputRun(graph, make_cpu_device(1, {}), integers).run(), 1e-5);
  };
  classification(0);
  classification(0.1);
  Build b(DType::f32);
  const ValueId target = b.builder.input("target", {DType::f32, {64, 3000}}, false);
  const ValueId loss = mean_squared_error(b.builder, b.input("prediction", {64, 3000}), target);
  b.builder.output("loss", loss);
  const Graph graph = differentiate(b.builder.build(), loss, b.wanted);
  expect_alike(InputRun(graph, tested_device(), {}).run(), InputRun(graph, make_cpu_device(1, {}), {}).run(),
               1e-5);
}

TEST(CudaLoops, AddLossesAndWhatIsCorrectToMetrics) {
  Build b(DType::f32);
  const ValueId logits = b.input("logits", {5, 7});
  const ValueId label = b.integers("label", {5});
  const auto metric = [&](const std::string& name, ValueId value) {
    accumulate(b.builder, b.builder.metric(name), value);
  };
  metric("loss", cross_entropy(b.builder, logits, label, 0));
  metric("correct", top_k_correct(b.builder, logits, label, 3));
  const Graph graph = b.builder.build();
  const std::vector<float> given = numbers(35, 0);
  const std::vector<int32_t> labels{0, 6, 3, 2, 1};
  const auto after = [&](std::unique_ptr<Device> device, int runs) {
    device->enter();
    const auto executable = device->compile(graph, {.metrics = {"loss", "correct"}});
    const auto activations = device->allocate(executable->activation_bytes());
    const auto metrics = device->allocate(2 * sizeof(float));
    device->zero(metrics->data(), metrics->size());
    Bindings bindings;
    bindings.activations = {activations->data(), activations->size()};
    bindings.metrics = reinterpret_cast<float*>(metrics->data());
    const auto context = executable->bind(ArenaLayout::pack({}), bindings);
    context->set_input("logits", given.data());
    context->set_input("label", labels.data());
    Host host;
    for (int run = 0; run < runs; ++run) context->run(host);
    std::vector<float> found(2);
    device->copy_out(metrics->data(), std::as_writable_bytes(std::span(found)));
    return found;
  };
  for (const int runs : {1, 3})
    EXPECT_LE(relative_error(after(tested_device(), runs), after(make_cpu_device(1, {}), runs)), 1e-6);
}

TEST(CudaLoops, LoseNaNToALabelThatIsNoClass) {
  Build b(DType::f32);
  const ValueId logits = b.input("logits", {3, 4});
  const ValueId label = b.integers("label", {3});
  b.builder.output("correct", top_k_correct(b.builder, logits, label, 4));
  const ValueId loss = cross_entropy(b.builder, logits, label, 0);
  b.builder.output("loss", loss);
  const Graph graph = differentiate(b.builder.build(), loss, b.wanted);
  const Results results = InputRun(graph, tested_device(), {{"label", {1, 4, -1}}}).run();
  EXPECT_TRUE(std::isnan(results.at("loss")[0]));
  EXPECT_EQ(results.at("correct")[0], 1);
  const auto& gradient = results.at("gradient/logits");
  for (size_t i = 0; i < gradient.size(); ++i) EXPECT_EQ(std::isnan(gradient[i]), i >= 4) << i;
}

TEST(CudaLoops, DropWhatProcessorsDrop) {
  for (const int64_t features : {1, 8, 1001}) {
    Build b(DType::f32);
    const ValueId sample = b.integers("sample", {3, 2});
    const ValueId random = b.integers("random", {4});
    b.builder.set_scope("drop");
    b.builder.output("y", dropout(b.builder, b.input("x", {3, features}), 0.3, sample, random));
    const Graph graph = b.builder.build();
    const Integers integers{{"sample", {7, 0, -1, 3, 123456, -9}}, {"random", {-5, 9, 3, 0}}};
    EXPECT_EQ(InputRun(graph, tested_device(), integers).run(),
              InputRun(graph, make_cpu_device(1, {}), integers).run());
  }
}

}  // namespace telar::test
