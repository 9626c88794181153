// Convolutions on the fake cuDNN, in every form that cuDNN may leave to our loops, compared with the CPU
// device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "cuda/fake_engines.h"
#include "cuda/fakes.h"
#include "cuda/forget_choices.h"
#include "ops/run_graph.h"
#include "support/sentences.h"
#include "telar/core/bf16.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/fuse_activations.h"
#include "telar/graph/mixed_precision.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/pooling.h"
#include "telar/graph/ops/reduce.h"

namespace telar {
namespace {

using test::fake;

class FakeCudaConvolution : public testing::Test {
 protected:
  void SetUp() override { fake() = {}; }
  void TearDown() override {
    EXPECT_EQ(fake().blocks, 0);
    EXPECT_EQ(fake().descriptors, 0);
    fake() = {};
  }
};

struct Case {
  std::string name;
  Shape x;
  Shape w;
  Conv2dOptions options;
};

/// Cases that the fixtures do not cover: groups with dilation, channels that are not a multiple of 8, several
/// pieces of the bias gradient.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"groups, stride, dilation",
       {2, 8, 13, 12},
       {16, 4, 3, 3},
       {.stride_h = 2, .padding_h = 1, .padding_w = 2, .dilation_h = 2, .dilation_w = 3, .groups = 2}},
      {"each channel alone", {2, 8, 9, 8}, {16, 1, 3, 3}, {.padding_h = 1, .padding_w = 1, .groups = 8}},
      {"odd channels", {3, 3, 7, 5}, {5, 3, 2, 3}, {.stride_w = 2, .dilation_h = 2}},
      {"one pixel of the image", {2, 5, 9, 9}, {8, 5, 1, 1}, {.stride_h = 3, .stride_w = 3}},
      {"large", {2, 8, 32, 32}, {8, 8, 1, 1}, {}},
  };
  return all;
}

/// y = conv2d(x, w, bias), optionally with ReLU, and the gradients of Σ y · weighting. Weights and bias are
/// parameters.
Graph graph_of(const Case& given, DType dtype, bool bias, bool activated) {
  GraphBuilder builder;
  builder.set_scope("layer");
  const ValueId x = builder.input("x", {DType::f32, given.x}, false);
  const ValueId w = builder.parameter("w", {DType::f32, given.w});
  const ValueId b = bias ? builder.parameter("b", {DType::f32, {given.w[0]}}) : kNoValue;
  ValueId y = conv2d(builder, x, w, b, given.options);
  if (activated) y = relu(builder, y);
  builder.output("y", y);
  const ValueId weighting = builder.input("weighting", builder.type(y), false);
  builder.output("loss", reduce_sum(builder, mul(builder, y, weighting), {}));
  Graph graph = builder.build();
  if (dtype == DType::bf16) graph = mixed_precision(graph);
  std::vector<ValueId> wanted{graph.find(ValueKind::input, "x"), graph.find(ValueKind::parameter, "w")};
  if (bias) wanted.push_back(graph.find(ValueKind::parameter, "b"));
  return fuse_activations(differentiate(graph, graph.output("loss"), wanted));
}

/// Numbers that bf16 represents exactly, so that the same sums are negative before a ReLU in either type.
std::vector<float> numbers(int64_t count, uint64_t stream) {
  std::vector<float> values = test::numbers(count, stream);
  for (float& value : values) value = from_bf16(to_bf16(value));
  return values;
}

/// y and the gradients, by name.
std::map<std::string, std::vector<float>> results_of(const Graph& graph, std::unique_ptr<Device> device) {
  test::GraphRun run(graph, std::move(device));
  std::map<std::string, std::vector<float>> results;
  uint64_t stream = 0;
  for (const ValueId id : graph.of_kind(ValueKind::input)) {
    const Value& value = graph.value(id);
    run.set_input(value.name, std::span<const float>(numbers(value.type.shape.elements(), ++stream)));
  }
  for (const ValueId id : graph.of_kind(ValueKind::parameter)) {
    const Value& value = graph.value(id);
    run.set_parameter(value.name, numbers(value.type.shape.elements(), ++stream));
  }
  run.run();
  for (const char* name : {"y", "gradient/x"}) results[name] = run.output(name);
  for (const ValueId id : graph.of_kind(ValueKind::parameter))
    results["gradient of " + graph.value(id).name] = run.gradient(graph.value(id).name);
  return results;
}

void expect_as_on_processors(const Case& given, DType dtype, bool bias, bool activated,
                             double tolerance = 0) {
  SCOPED_TRACE(given.name + (dtype == DType::bf16 ? " bf16" : " f32") + (bias ? ", bias" : "") +
               (activated ? ", ReLU" : ""));
  const auto found = results_of(graph_of(given, dtype, bias, activated), test::tested_device());
  const auto right = results_of(graph_of(given, DType::f32, bias, activated), make_cpu_device(1, {}));
  EXPECT_EQ(found.size(), bias ? 4U : 3U);
  if (tolerance == 0) {
    // A sum near 0 may change its sign if it was rounded before the bias is added.
    tolerance = dtype == DType::f32 ? 1e-5 : bias && activated ? 0.15 : 2e-2;
  }
  for (const auto& [name, values] : found)
    EXPECT_LT(test::relative_error(values, right.at(name)), tolerance) << name;
}

void expect_all_as_on_processors() {
  for (const Case& given : cases())
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool bias : {false, true})
        for (const bool activated : {false, true}) expect_as_on_processors(given, dtype, bias, activated);
}

TEST_F(FakeCudaConvolution, AndItsGradientsEqualTheProcessors) {
  expect_all_as_on_processors();
  EXPECT_GT(fake().fused, 0);
}

TEST_F(FakeCudaConvolution, EqualsThemWithChannelsInTheirPlace) {
  fake().channels_last = false;
  expect_all_as_on_processors();
  EXPECT_GT(fake().fused, 0);
}

TEST_F(FakeCudaConvolution, EqualsThemWithChannelsLast) {
  fake().plain = false;
  expect_all_as_on_processors();
  EXPECT_GT(fake().fused, 0);
}

TEST_F(FakeCudaConvolution, EqualsThemWhereCudnnFusesNothing) {
  fake().fuses = false;
  expect_all_as_on_processors();
  fake().channels_last = false;
  expect_all_as_on_processors();
  EXPECT_EQ(fake().fused, 0);
}

/// The name of an engine when it is chosen.
std::string name_of(const std::string& engine, int workspace) {
  return fmt::format("engine {}, {}={}", test::number_of({engine}),
                     static_cast<int>(CUDNN_KNOB_TYPE_WORKSPACE), workspace);
}

/// Sets the algorithms of convolutions from now on.
void choose(const std::string& forward, const std::string& backward_to_weights) {
  test::change_choices([&](const std::string& what, const std::string& algorithm) {
    if (what.starts_with("cuDNN convolution with")) return forward;
    return what.starts_with("cuDNN convolution backward to weights") ? backward_to_weights : algorithm;
  });
}

TEST_F(FakeCudaConvolution, EqualsThemInEachOfItsWays) {
  const Case& given = cases()[4];
  const std::string plain = name_of("plain", 0);
  const std::string fused = name_of("tensor cores", 1000);
  expect_as_on_processors(given, DType::bf16, true, true);
  struct Way {
    std::string forward;
    std::string backward_to_weights;
    double tolerance;
    int fused;
  };
  for (const Way& way : {Way{fused, plain, 2e-2, 2}, Way{"bias rounded, " + fused, plain, 2e-2, 2},
                         Way{"a loop behind " + plain, "gradients rounded, " + plain, 0.15, 0}}) {
    SCOPED_TRACE(way.forward);
    choose(way.forward, way.backward_to_weights);
    fake() = {};
    expect_as_on_processors(given, DType::bf16, true, true, way.tolerance);
    EXPECT_EQ(fake().plans, 3);
    EXPECT_EQ(fake().fused, way.fused);
  }
}

TEST_F(FakeCudaConvolution, ExecutesNoEngineThatRoundsOrAddsInOtherWays) {
  const std::set<std::string> f32 = {"not to be run", "plain", "last resort"};
  expect_as_on_processors(cases()[0], DType::f32, true, true);
  EXPECT_EQ(fake().executed, f32);
  fake().executed.clear();
  std::set<std::string> bf16 = f32;
  bf16.insert({"tensor cores", "rounds"});
  expect_as_on_processors(cases()[0], DType::bf16, true, true);
  EXPECT_EQ(fake().executed, bf16);
}

/// y = conv2d(x, w), computed without earlier choices.
void convolve() {
  test::forget_choices();
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 3, 6, 6}}, true);
  const ValueId w = builder.parameter("w", {DType::f32, {4, 3, 3, 3}});
  builder.output("y", conv2d(builder, x, w, kNoValue, {}));
  const test::GraphRun run(builder.build());
}

TEST_F(FakeCudaConvolution, MeasuresEightPlansAtMostAndNoLastResortWithThem) {
  fake().further_engines = true;
  convolve();
  EXPECT_EQ(fake().executed.size(), 8U);
  EXPECT_FALSE(fake().executed.contains("last resort"));
}

TEST_F(FakeCudaConvolution, MeasuresThreeCompiledPlansAtMost) {
  fake().further_engines = true;
  fake().compiles = true;
  convolve();
  const std::set<std::string> measured = {"not to be run", "plain",      "compiled 0",
                                          "compiled 1",    "compiled 2", "last resort"};
  EXPECT_EQ(fake().executed, measured);
}

TEST_F(FakeCudaConvolution, IsPlannedOnceWithEachEngine) {
  convolve();
  // "greedy", "not to be had", "not to be run", "plain", which is proposed twice, "last resort"
  EXPECT_EQ(fake().plans, 5);
}

TEST_F(FakeCudaConvolution, IsPlannedOnceForItsShape) {
  const auto plans = [](const std::vector<int64_t>& channels) {
    fake() = {};
    test::forget_choices();
    GraphBuilder builder;
    const ValueId x = builder.input("x", {DType::f32, {2, 3, 6, 6}}, true);
    for (const int64_t o : channels) {
      const std::string name = std::to_string(builder.graph().nodes().size());
      const ValueId w = builder.parameter("w" + name, {DType::f32, {o, 3, 3, 3}});
      builder.output("y" + name, conv2d(builder, x, w, kNoValue, {}));
    }
    const test::GraphRun run(builder.build());
    return fake().plans;
  };
  EXPECT_EQ(plans({4, 4, 4}), plans({4}));
  EXPECT_GT(plans({4, 5}), plans({4}));
}

TEST_F(FakeCudaConvolution, WithoutAnEngineIsNamed) {
  fake().convolves = false;
  const Graph graph = graph_of(cases()[0], DType::f32, true, false);
  const auto gpu = test::tested_device();
  test::expect_error([&] { gpu->compile(graph, {}); },
                     {"cuDNN has no algorithm for conv2d (layer 'layer')", "f32 [2, 8, 13, 12]",
                      "[16, 4, 3, 3]", "groups=2", "cuda:0", "cuDNN's last words"},
                     Error::Kind::run);
}

TEST_F(FakeCudaConvolution, KeepsNaNsThroughItsReLU) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Graph graph = graph_of(cases()[4], dtype, true, true);
    test::GraphRun run(graph);
    for (const ValueId id : graph.of_kind(ValueKind::input)) {
      const Value& value = graph.value(id);
      std::vector<float> values(static_cast<size_t>(value.type.shape.elements()), -1);
      values[0] = std::numeric_limits<float>::quiet_NaN();
      run.set_input(value.name, std::span<const float>(values));
    }
    run.set_parameter("w", std::vector<float>(64, -1));
    run.set_parameter("b", std::vector<float>(8, -1));
    run.run();
    EXPECT_TRUE(std::isnan(run.output("y")[0]));
    EXPECT_EQ(run.output("y")[1], 7);  // 8 products of −1 and −1, and the bias
  }
}

/// Counts the steps that convert a value to another layout or type.
struct Steps final : HostOperations {
  void communicate(const Node& /*node*/, std::span<float> /*memory*/) override {}
  bool listens() const override { return true; }
  void ran(const OperationName& operation) override {
    reorders += operation.op.ends_with("(reorder)") ? 1 : 0;
    of_convolutions += operation.op == "conv2d (reorder)" ? 1 : 0;
  }
  int reorders = 0;
  int of_convolutions = 0;
};

/// A graph on a device, with its memory.
struct Bound {
  Bound(const Graph& graph, const Device& device, const CompileOptions& options)
      : executable(device.compile(graph, options)),
        arena(ArenaLayout::pack(executable->parameter_layouts())),
        parameters(device.allocate(arena.bytes)),
        gradients(device.allocate(arena.bytes)),
        activations(device.allocate(executable->activation_bytes())) {
    Bindings bindings;
    bindings.parameters = parameters->data();
    bindings.gradients = gradients->data();
    bindings.activations = {activations->data(), activations->size()};
    context = executable->bind(arena, bindings);
  }
  std::unique_ptr<Executable> executable;
  ArenaLayout arena;
  std::unique_ptr<Memory> parameters;
  std::unique_ptr<Memory> gradients;
  std::unique_ptr<Memory> activations;
  std::unique_ptr<Context> context;
};

TEST_F(FakeCudaConvolution, RoundsToTF32WhereThatIsAllowed) {
  const auto gpu = test::tested_device();
  CompileOptions options;
  options.tf32 = true;
  const Bound bound(graph_of(cases()[0], DType::f32, true, true), *gpu, options);
  EXPECT_EQ(fake().executed,
            (std::set<std::string>{"not to be run", "plain", "last resort", "tensor cores"}));
  EXPECT_GT(fake().fused, 0);
}

TEST_F(FakeCudaConvolution, GivesItsWeightsTheLayoutThatItReads) {
  for (const bool last : {true, false}) {
    fake().channels_last = last;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const bool tf32 : {false, true}) {
        const auto gpu = test::tested_device();
        CompileOptions options;
        options.tf32 = tf32;
        const Bound bound(graph_of(cases()[0], dtype, false, false), *gpu, options);
        ASSERT_EQ(bound.arena.entries.size(), 1U);
        const bool on_tensor_cores = dtype == DType::bf16 || tf32;
        const bool wanted = last && on_tensor_cores;
        EXPECT_EQ(bound.arena.entries[0].layout.format, wanted ? "channels last" : "plain");
        Steps steps;
        bound.context->run(steps);
        // The images, converted to channels last, and the weights, converted to bf16, which the gradient
        // reads, too.
        EXPECT_EQ(steps.of_convolutions, (wanted ? 1 : 0) + (dtype == DType::bf16 ? 1 : 0));
      }
    }
  }
}

TEST_F(FakeCudaConvolution, InANetworkOfF32KeepsTheLayoutOfItsImages) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 3, 8, 8}}, true);
  const auto convolved = [&](ValueId value, const std::string& w, int64_t inputs) {
    return relu(builder,
                conv2d(builder, value, builder.parameter(w, {DType::f32, {8, inputs, 3, 3}}), kNoValue, {}));
  };
  const ValueId y = global_average_pool(builder, convolved(convolved(x, "first", 3), "second", 8));
  const ValueId loss = reduce_sum(builder, mul(builder, y, y), {});
  builder.output("loss", loss);
  const Graph graph = builder.build();
  const auto gpu = test::tested_device();
  const Bound bound(differentiate(graph, graph.output("loss"), graph.of_kind(ValueKind::parameter)), *gpu,
                    {});
  Steps steps;
  bound.context->run(steps);
  EXPECT_EQ(steps.reorders, 0);
}

}  // namespace
}  // namespace telar
