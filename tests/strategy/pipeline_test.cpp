#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "support/sentences.h"
#include "telar/nn/training_step.h"
#include "telar/nn/zoo.h"
#include "telar/strategy/link_bytes.h"
#include "telar/strategy/stage_cuts.h"
#include "telar/strategy/strategy.h"

namespace telar {
namespace {

TrainingStep step_of(const Model& model, int64_t batch, Precision precision = Precision::f32) {
  return make_training_step(model, {.batch = batch, .optimizer = SgdOptions{}, .precision = precision});
}

Model small_mlp() { return make_model("mlp", {{"hidden", std::vector<int64_t>{6, 5}}}, {4}, 3); }
Model resnet() { return make_model("resnet18", {{"stem", std::string("7x7")}}, {3, 32, 32}, 10); }

/// `micro_batches` 0: the default.
Program rewrite(const TrainingStep& step, int stages, int64_t micro_batches,
                const std::vector<int>& threads = {}, const std::vector<OperationCost>& costs = {}) {
  Cluster cluster;
  for (int s = 0; s < stages; ++s)
    cluster.devices.push_back({"cpu", threads.empty() ? 1 : threads[static_cast<size_t>(s)], {}});
  return make_strategy("pipeline", {{"micro_batches", micro_batches}}).rewrite(step, cluster, costs);
}

bool has_node(const Graph& graph, const std::string& op, const std::string& scope) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [&](const Node& node) { return node.op->name() == op && node.scope == scope; });
}

TEST(PipelineStrategy, CutsAnMlpIntoTwoStages) {
  const Program program =
      rewrite(step_of(small_mlp(), 8), 2, 4, {}, {{"fc1", "linear", 2, 2}, {"fc2", "linear", 1, 1}});
  EXPECT_EQ(program.worker(0).gradient.str(), R"text(input %0 x: f32 [2, 4]
parameter %1 fc1.weight: f32 [6, 4]
parameter %2 fc1.bias: f32 [6]
input %5 %28: f32 [2, 6]
%3 = linear(%0, %1, %2) : f32 [2, 6]  # fc1
%4 = relu(%3) : f32 [2, 6]
deliver(%4) {name=%4}
pause()
%6 = relu_backward(%5, %4) : f32 [2, 6]
deliver(%6) {name=%31}
)text");
  EXPECT_EQ(program.worker(0).weight_gradients.str(), R"text(input %0 x: f32 [8, 4]
input %1 %31: f32 [8, 6]
buffer %4 gradient/fc1.weight: f32 [6, 4]
parameter %5 fc1.weight: f32 [6, 4]
buffer %6 gradient/fc1.bias: f32 [6]
parameter %7 fc1.bias: f32 [6]
%2, %3 = linear_backward_weights(%0, %1) {bias=true} : f32 [6, 4], f32 [6]  # fc1
accumulate(%4, %2)  # fc1
accumulate(%6, %3)  # fc1
)text");
  EXPECT_EQ(program.worker(1).gradient.str(), R"text(input %0 %4: f32 [2, 6]
parameter %1 fc2.weight: f32 [5, 6]
parameter %2 fc2.bias: f32 [5]
parameter %5 fc3.weight: f32 [3, 5]
parameter %6 fc3.bias: f32 [3]
input %8 label: i32 [2]
buffer %11 metric/loss: f32 [1]
buffer %13 metric/accuracy: f32 [1]
%3 = linear(%0, %1, %2) : f32 [2, 5]  # fc2
%4 = relu(%3) : f32 [2, 5]
deliver(%4) {name=%8}
%7 = linear(%4, %5, %6) : f32 [2, 3]  # fc3
%9, %10 = cross_entropy(%7, %8) {label_smoothing=0} : f32 [1], f32 [2, 3]  # loss
accumulate(%11, %9)  # loss
%12 = top_k_correct(%7, %8) {k=1} : f32 [1]  # accuracy
accumulate(%13, %12)  # accuracy
pause()
%14 = constant() {shape=[1], value=1} : f32 [1]  # loss
%15 = cross_entropy_backward(%10, %8, %14) {label_smoothing=0} : f32 [2, 3]  # loss
deliver(%15) {name=%19}  # loss
%16 = linear_backward_data(%15, %5) : f32 [2, 5]  # fc3
%17 = relu_backward(%16, %4) : f32 [2, 5]
deliver(%17) {name=%25}
%18 = linear_backward_data(%17, %1) : f32 [2, 6]  # fc2
deliver(%18) {name=%28}  # fc2
)text");
  EXPECT_EQ(program.worker(1).weight_gradients.str(), R"text(input %0 %8: f32 [8, 5]
input %1 %19: f32 [8, 3]
buffer %4 gradient/fc3.weight: f32 [3, 5]
parameter %5 fc3.weight: f32 [3, 5]
buffer %6 gradient/fc3.bias: f32 [3]
parameter %7 fc3.bias: f32 [3]
input %8 %4: f32 [8, 6]
input %9 %25: f32 [8, 5]
buffer %12 gradient/fc2.weight: f32 [5, 6]
parameter %13 fc2.weight: f32 [5, 6]
buffer %14 gradient/fc2.bias: f32 [5]
parameter %15 fc2.bias: f32 [5]
%2, %3 = linear_backward_weights(%0, %1) {bias=true} : f32 [3, 5], f32 [3]  # fc3
accumulate(%4, %2)  # fc3
accumulate(%6, %3)  # fc3
%10, %11 = linear_backward_weights(%8, %9) {bias=true} : f32 [5, 6], f32 [5]  # fc2
accumulate(%12, %10)  # fc2
accumulate(%14, %11)  # fc2
)text");
  const auto kept = [&](int64_t worker) {
    std::string names;
    for (const Holding& holding : program.worker(worker).holdings) names += holding.variable + " ";
    return names;
  };
  EXPECT_EQ(kept(0), "fc1.weight fc1.bias ");
  EXPECT_EQ(kept(1), "fc3.weight fc3.bias fc2.weight fc2.bias ");
}

TEST(PipelineStrategy, StagesAlternateForwardAndBackward) {
  using action::backward;
  using action::forward;
  using Schedule = std::vector<ScheduledAction>;
  EXPECT_EQ(one_forward_one_backward(0, 3, 4),
            (Schedule{forward(0), forward(1), forward(2), forward(3), backward(0), backward(1), backward(2),
                      backward(3)}));
  EXPECT_EQ(one_forward_one_backward(1, 3, 4), (Schedule{forward(0), forward(1), forward(2), backward(0),
                                                         forward(3), backward(1), backward(2), backward(3)}));
  EXPECT_EQ(one_forward_one_backward(2, 3, 2), (Schedule{forward(0), backward(0), forward(1), backward(1)}));
  EXPECT_EQ(one_forward_one_backward(0, 4, 1), (Schedule{forward(0), backward(0)}));
}

TEST(PipelineStrategy, EqualStagesHaveTheBubbleOfTheFormula) {
  for (const int64_t stages : {1, 2, 3, 4}) {
    for (const int64_t micro_batches : {1, 4, 8}) {
      const std::vector<StageSeconds> equal(static_cast<size_t>(stages), {1, 2, 0});
      EXPECT_DOUBLE_EQ(simulate_step(equal, micro_batches),
                       3.0 * static_cast<double>(micro_batches + stages - 1));
    }
  }
  // The last stage still computes weight gradients while the first stage finishes its backward pass.
  EXPECT_DOUBLE_EQ(simulate_step({{1, 2, 0}, {1, 2, 2}}, 4), 15);
}

std::string first_layer(const Program& program, size_t stage) {
  return program.worker(static_cast<int64_t>(stage)).gradient.nodes().front().scope;
}

TEST(PipelineStrategy, TheCutFollowsTheMeasuredCosts) {
  const TrainingStep step = step_of(resnet(), 8);
  const auto cut_for = [&](const std::string& slow) {
    std::vector<OperationCost> costs;
    for (const char* layer :
         {"conv1", "layer1.0.conv1", "layer2.0.conv1", "layer3.0.conv1", "layer4.0.conv1"}) {
      costs.push_back({layer, "conv2d", 1, layer == slow ? 8.0 : 1.0});
    }
    return first_layer(rewrite(step, 2, 4, {}, costs), 1);
  };
  EXPECT_TRUE(cut_for("layer4.0.conv1") > "layer3.0.conv1") << cut_for("layer4.0.conv1");
  EXPECT_TRUE(cut_for("conv1") < "layer1.0.conv2") << cut_for("conv1");
}

TEST(PipelineStrategy, FewBytesPassOverASlowLink) {
  const TrainingStep step = step_of(resnet(), 8);
  const auto program = [&](double link_speed, int processes) {
    Cluster cluster{std::vector<DeviceSpec>(static_cast<size_t>(2 / processes)), processes};
    cluster.link_speed = link_speed;
    return make_strategy("pipeline", {{"micro_batches", int64_t{4}}}).rewrite(step, cluster);
  };
  EXPECT_LT(bytes_on_each_link(program(1e6, 2)).at({0, 1}),
            bytes_on_each_link(program(1e10, 2)).at({0, 1}) / 2);
  EXPECT_EQ(program(1e6, 1).str(), program(1e10, 1).str());
}

TEST(PipelineStrategy, AStageWithMoreThreadsGetsMoreLayers) {
  const TrainingStep step = step_of(resnet(), 8);
  const auto nodes = [&](const std::vector<int>& threads) {
    return rewrite(step, 2, 4, threads).worker(0).gradient.nodes().size();
  };
  EXPECT_GT(nodes({3, 1}), nodes({1, 1}));
  EXPECT_LT(nodes({1, 3}), nodes({1, 1}));
}

/// Every effect of the step is in exactly one stage. Every value that a graph receives is sent by another.
TEST(PipelineStrategy, TheStagesTogetherFormTheStep) {
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const TrainingStep step = step_of(resnet(), 8, precision);
    for (const int stages : {1, 2, 3, 5}) {
      const Program program = rewrite(step, stages, 4);
      std::multiset<std::string> filled;
      std::set<std::string> handed_out;
      std::set<std::string> taken_in;
      for (const WorkerProgram& worker : program.kinds) {
        for (const Graph* graph : {&worker.gradient, &worker.weight_gradients}) {
          for (const Node& node : graph->nodes()) {
            if (node.op->name() == "accumulate") filled.insert(graph->value(node.inputs[0]).name);
            if (node.op->name() == "deliver") handed_out.insert(node.attributes.text("name"));
          }
          for (const Value& value : graph->values()) {
            if (value.kind == ValueKind::input && value.name.starts_with('%')) taken_in.insert(value.name);
          }
        }
      }
      std::multiset<std::string> buffers;
      for (const Node& node : step.gradient.nodes()) {
        if (node.op->name() == "accumulate") buffers.insert(step.gradient.value(node.inputs[0]).name);
      }
      EXPECT_EQ(filled, buffers) << stages << " stages";
      EXPECT_EQ(handed_out, taken_in) << stages << " stages";
    }
  }
}

TEST(PipelineStrategy, OnlyLargeWeightGradientsAreDeferred) {
  const Program program = rewrite(step_of(resnet(), 32), 1, 4);
  const WorkerProgram& worker = program.worker(0);
  EXPECT_TRUE(has_node(worker.weight_gradients, "conv2d_backward_weights", "layer4.1.conv2"));
  EXPECT_FALSE(has_node(worker.gradient, "conv2d_backward_weights", "layer4.1.conv2"));
  EXPECT_TRUE(has_node(worker.gradient, "conv2d_backward_weights", "conv1"));
  EXPECT_EQ(worker.weight_gradients.batch(), 32);
  EXPECT_EQ(worker.gradient.batch(), 8);
}

TEST(PipelineStrategy, KeepsActivationsWithTheirLayers) {
  for (const int stages : {2, 3, 4, 5}) {
    const Program program = rewrite(step_of(resnet(), 8), stages, 4);
    for (const WorkerProgram& worker : program.kinds)
      EXPECT_NE(worker.gradient.nodes().front().op->name(), "relu");
  }
}

TEST(PipelineStrategy, RefusesMoreStagesThanCuts) {
  test::expect_error([] { rewrite(step_of(small_mlp(), 8), 40, 0); },
                     {"can be cut at", "40", "strategy.stages"});
  const Cluster cluster{{{"cpu", 1, {}}, {"cpu", 1, {}}}, 2};
  test::expect_error([&] { make_strategy("pipeline").rewrite(step_of(small_mlp(), 8), cluster); },
                     {"can be cut at 2 places", "at most 3 stages, not 4"});
}

// Of the stages that need a value, in whatever graph, one of each process receives it.
TEST(PipelineStrategy, EveryValueReachesEveryProcessThatReadsItOnce) {
  const TrainingStep step = step_of(resnet(), 8);
  for (const auto& [processes, each] : std::vector<std::pair<int, int>>{{2, 1}, {3, 1}, {2, 2}, {4, 1}}) {
    std::multiset<std::string> sent;
    std::multiset<std::string> received;
    std::multiset<std::string> needed;
    std::multiset<std::string> kept;
    const Cluster cluster{std::vector<DeviceSpec>(static_cast<size_t>(each)), processes};
    const Program program = make_strategy("pipeline", {{"micro_batches", int64_t{4}}}).rewrite(step, cluster);
    for (int64_t p = 0; p < processes; ++p) {
      std::set<std::string> made;
      std::set<std::string> read;
      for (int64_t w = p * each; w < (p + 1) * each; ++w) {
        const WorkerProgram& worker = program.worker(w);
        for (const Crossing& crossing : worker.crossings)
          (crossing.from == w ? sent : received)
              .insert(crossing.value + " " + std::to_string(crossing.number));
        for (const Graph* graph : {&worker.gradient, &worker.weight_gradients}) {
          for (const Node& node : graph->nodes())
            if (node.op->name() == "deliver") made.insert(node.attributes.text("name"));
          for (const Value& value : graph->values())
            if (value.kind == ValueKind::input && value.name.starts_with('%')) read.insert(value.name);
        }
        for (const Holding& holding : worker.holdings) kept.insert(holding.variable);
      }
      for (const std::string& name : read)
        if (!made.contains(name)) needed.insert(name);
    }
    EXPECT_EQ(sent, received);
    std::multiset<std::string> names;
    for (const std::string& text : received) names.insert(text.substr(0, text.find(' ')));
    EXPECT_EQ(names, needed) << processes << " processes with " << each << " stages";
    std::multiset<std::string> all;
    for (const ParameterInfo& parameter : step.parameters) all.insert(parameter.name);
    EXPECT_EQ(kept, all);
  }
}

}  // namespace
}  // namespace telar
