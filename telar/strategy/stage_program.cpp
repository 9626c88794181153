#include "telar/strategy/stage_program.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "telar/core/error.h"
#include "telar/graph/forward_part.h"
#include "telar/graph/ops/batch_norm.h"
#include "telar/graph/rewrite.h"
#include "telar/graph/training_step.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/cut_search.h"
#include "telar/strategy/divided_step.h"
#include "telar/strategy/pieces.h"
#include "telar/strategy/stage_crossings.h"
#include "telar/strategy/stage_cuts.h"
#include "telar/strategy/stage_graphs.h"

namespace telar {

namespace {

constexpr const char* kStages = "stages";
constexpr const char* kPeers = "peers";

void require_places(size_t places, size_t stages) {
  if (places + 1 >= stages) return;
  throw user_error(
      "this model can be cut at {} places, so it has at most {} stages, not {}; lower strategy.stages",
      places, places + 1, stages);
}

/// How a step is cut: by node of its gradient graph, the stage, and whether it is computed once for the whole
/// batch.
struct Cut {
  std::vector<int> stage;
  std::vector<bool> left;
};

Graph of_micro_batch(const Graph& graph, int64_t micro_batches) {
  return graph.with_batch((graph.batch() + micro_batches - 1) / micro_batches);
}

/// `together`: stages of each process.
Cut cut(const TrainingStep& step, const Cluster& cluster, const StageCuts& cuts,
        const std::vector<size_t>& places, const std::vector<double>& update, const std::vector<int>& threads,
        int64_t together, int64_t micro_batches, const std::vector<OperationCost>& costs) {
  require_places(places.size(), threads.size());
  std::vector<double> speeds;  // of each cut
  for (int64_t before = 1; before < std::ssize(threads); ++before)
    speeds.push_back(before % together == 0 && cluster.processes > 1 ? cluster.link_speed
                                                                     : cluster.memory_speed);
  std::vector<bool> left = left_for_the_end(step, cuts, of_micro_batch(step.gradient, micro_batches));
  const std::vector<double> seconds = node_seconds(step.gradient, costs, left, cluster.memory_speed);
  const CutProblem problem{step, cuts, places, left, seconds, update, threads, together, speeds};
  return {cuts.stages(best_cuts(problem, micro_batches)), std::move(left)};
}

/// The graphs of the stages of a step that is cut like this, or of one whose graph has the same nodes.
std::vector<StageGraphs> graphs_of(const TrainingStep& step, const Cut& cut, int64_t stages,
                                   int64_t micro_batches) {
  return make_stage_graphs(step, cut.stage, static_cast<int>(stages), cut.left,
                           of_micro_batch(step.gradient, micro_batches));
}

std::vector<ScheduledAction> end_of_step() {
  return {action::exchange_metrics(), action::exchange_norm(), action::update_shard(),
          action::wait_for_all()};
}

/// The trained parameter whose gradient a node adds to; null: none.
const ParameterInfo* trained_by(const TrainingStep& step, const Node& node) {
  if (node.op->effect() != Effect::accumulates) return nullptr;
  const Value& buffer = step.gradient.value(node.inputs[0]);
  if (buffer.kind != ValueKind::gradient) return nullptr;
  const auto info = std::ranges::find(step.parameters, buffer.name, &ParameterInfo::name);
  return info != step.parameters.end() && info->trainable ? &*info : nullptr;
}

/// The places at which each stage keeps parameters that it trains. Of the places between the same two layers
/// with such parameters, the one that the fewest bytes cross.
std::vector<size_t> places_between_layers(const TrainingStep& step, const StageCuts& cuts) {
  std::map<size_t, std::pair<double, size_t>> best;  // by the number of parameters before: bytes, place
  const auto all = static_cast<size_t>(std::ranges::count_if(
      step.gradient.nodes(), [&](const Node& n) { return trained_by(step, n) != nullptr; }));
  for (const size_t place : cuts.places()) {
    const std::vector<int> stage = cuts.stages({place});
    size_t before = 0;
    for (size_t n = 0; n < stage.size(); ++n)
      if (stage[n] == 0 && trained_by(step, step.gradient.nodes()[n]) != nullptr) ++before;
    if (before == 0 || before == all) continue;
    const std::pair<double, size_t> candidate{cuts.crossing_bytes(place), place};
    const auto [known, fresh] = best.emplace(before, candidate);
    if (!fresh) known->second = std::min(known->second, candidate);
  }
  std::vector<size_t> places;
  for (const auto& [before, candidate] : best) places.push_back(candidate.second);
  std::ranges::sort(places);
  return places;
}

/// Seconds, by node: the update streams through the parameter, its gradient and its optimizer state.
std::vector<double> update_seconds(const TrainingStep& step, double memory_speed) {
  std::map<std::string, double> bytes;
  for (const Value& value : step.update.values()) {
    if (!value.is_of_parameter()) continue;
    bytes[value.name] +=
        (value.kind == ValueKind::gradient ? 1 : 2) * static_cast<double>(value.type.bytes());
  }
  std::vector<double> seconds;
  for (const Node& node : step.gradient.nodes()) {
    const ParameterInfo* parameter = trained_by(step, node);
    seconds.push_back(parameter == nullptr ? 0 : bytes[parameter->name] / memory_speed);
  }
  return seconds;
}

/// The threads of each stage of the first pipelines, which divide layers among them. Those of other processes
/// are known only if the cluster lists all.
std::vector<int> threads_of_stages(const Cluster& cluster, const WorkerGrid& grid) {
  std::vector<int> of_workers = cluster.all_threads;
  if (of_workers.empty() && cluster.processes == 1)
    for (const DeviceSpec& device : cluster.devices) of_workers.push_back(device.threads);
  of_workers.resize(static_cast<size_t>(grid.stages * grid.model), 1);
  std::vector<int> threads(static_cast<size_t>(grid.stages), 0);
  for (size_t w = 0; w < of_workers.size(); ++w)
    threads[static_cast<size_t>(place_of(grid, static_cast<int64_t>(w)).s)] += of_workers[w];
  return threads;
}

/// The stage of each parameter that the gradient graphs read or train.
std::map<std::string, int> stages_of_parameters(const std::vector<StageGraphs>& graphs) {
  std::map<std::string, int> stages;
  for (size_t s = 0; s < graphs.size(); ++s) {
    for (const Graph* graph : {&graphs[s].micro_batch, &graphs[s].weight_gradients}) {
      for (const Value& value : graph->values()) {
        if (value.is_of_parameter()) stages.emplace(value.name, static_cast<int>(s));
      }
    }
  }
  return stages;
}

/// The part of an update graph that updates the parameters that `keeps` names. A norm is that of their
/// gradients.
Graph update_of(const Graph& update, const std::set<std::string>& keeps) {
  GraphBuilder builder;
  Remap remap(update.values().size());
  for (size_t v = 0; v < update.values().size(); ++v) {
    const Value& value = update.values()[v];
    const auto id = static_cast<ValueId>(v);
    if (value.kind == ValueKind::input || (value.is_of_parameter() && keeps.contains(value.name)))
      remap.set(id, builder.declare(value));
  }
  for (const Node& node : update.nodes()) {
    const bool updates = node.op->effect() == Effect::updates;
    if (updates && remap(node.inputs[0]) == kNoValue) continue;
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs)
      if (updates || remap(id) != kNoValue) inputs.push_back(remap(id));
    builder.set_scope(node.scope);
    const auto outputs = builder.add(*node.op, std::move(inputs), node.attributes);
    for (size_t i = 0; i < outputs.size(); ++i) remap.set(node.outputs[i], outputs[i]);
  }
  builder.set_scope("");
  return builder.build();
}

/// The pipelines of one m: the stages of the step as its workers run it.
struct Pipelines {
  DividedStep divided;
  std::vector<StageGraphs> parts;  ///< by stage, as everything below
  std::vector<Graph> evaluation;
  std::vector<Graph> prediction;
  std::vector<Crossing> crossings;
  std::vector<Crossing> evaluation_crossings;
  std::vector<Crossing> prediction_crossings;
};

class StageProgram {
 public:
  StageProgram(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
               const WorkerGrid& grid, const StageOptions& options, const std::vector<OperationCost>& costs)
      : step_(step),
        grid_(grid),
        options_(options),
        together_(std::clamp<int64_t>(std::ssize(cluster.devices) / grid.model, 1, grid.stages)),
        program_(program_of(step, strategy)) {
    if (grid.model > 1)
      splits_ = choose_splits(forward_of(step), step.gradient.batch() / grid.data, grid.model, options.split);
    const DividedStep first = divided(0);
    const StageCuts cuts(first.step);
    cut_ = cut(first.step, cluster, cuts, places_between_layers(first.step, cuts),
               update_seconds(first.step, cluster.memory_speed), threads_of_stages(cluster, grid), together_,
               options.micro_batches, costs);
    stage_of_parameter_ = stages_of_parameters(graphs(first.step));
    program_.mesh = mesh_of(grid, cluster.processes);
  }

  Program make() {
    program_.micro_batches = options_.micro_batches;
    program_.groups = {{kDataGroup, {kDataAxis}}};
    if (grid_.workers() > grid_.stages) {
      program_.groups.push_back({kStages, {kStageAxis}});
      program_.stage_group = kStages;
    }
    if (grid_.model > 1) {
      program_.groups.push_back({kModelGroup, {kModelAxis}});
      program_.groups.push_back({kPeers, {kDataAxis, kModelAxis}});
      program_.batch_group = kModelGroup;
    }
    for (int64_t m = 0; m < grid_.model; ++m) {
      const Pipelines pipelines = make_pipelines(m);
      if (m == 0) add_buckets(pipelines.divided);
      for (int64_t s = 0; s < grid_.stages; ++s) program_.kinds.push_back(make_worker(s, pipelines));
    }
    for (int64_t w = 0; w < grid_.workers(); ++w) {
      const GridPlace at = place_of(grid_, w);
      program_.kind_of_worker.push_back(static_cast<size_t>(at.m * grid_.stages + at.s));
    }
    return std::move(program_);
  }

 private:
  /// The group that keeps what is not divided.
  const char* whole_group() const { return grid_.model > 1 ? kPeers : kDataGroup; }

  DividedStep divided(int64_t m) const {
    if (grid_.model == 1) return {step_, {}};
    return divide_step(step_, splits_, {kModelGroup, m, grid_.model});
  }

  std::vector<StageGraphs> graphs(const TrainingStep& step) const {
    return graphs_of(step, cut_, grid_.stages, options_.micro_batches);
  }

  Pipelines make_pipelines(int64_t m) {
    Pipelines made{.divided = divided(m)};
    made.parts = graphs(made.divided.step);
    const auto stages = static_cast<int>(grid_.stages);
    const auto cut_forward = [&](const Graph& graph) {
      return make_forward_graphs(graph, forward_stages(graph, stage_of_parameter_), stages);
    };
    made.evaluation = cut_forward(made.divided.step.evaluation);
    made.prediction = cut_forward(made.divided.step.prediction);
    std::vector<StageValues> of_gradient;
    std::vector<StageValues> of_evaluation;
    std::vector<StageValues> of_prediction;
    for (size_t s = 0; s < made.parts.size(); ++s) {
      of_gradient.push_back(values_of({&made.parts[s].micro_batch, &made.parts[s].weight_gradients}));
      of_evaluation.push_back(values_of({&made.evaluation[s]}));
      of_prediction.push_back(values_of({&made.prediction[s]}));
    }
    const auto together = static_cast<size_t>(together_);
    made.crossings = crossings_of(of_gradient, together);
    made.evaluation_crossings = crossings_of(of_evaluation, together);
    made.prediction_crossings = crossings_of(of_prediction, together);
    return made;
  }

  /// Buckets of one stage are consecutive in its arenas.
  void add_buckets(const DividedStep& divided) {
    const auto group_of = [&](const std::string& name) -> std::string {
      if (!divided.divisions.contains(name)) return grid_.data * grid_.model > 1 ? whole_group() : "";
      return grid_.data > 1 ? kDataGroup : "";
    };
    for (int64_t s = 0; s < grid_.stages; ++s) {
      std::vector<ParameterInfo> kept;
      for (const ParameterInfo& parameter : program_.parameters)
        if (stage_of_parameter_[parameter.name] == s) kept.push_back(parameter);
      for (Bucket& bucket : make_buckets(kept, divided.step.gradient, options_.bucket_bytes, group_of))
        program_.buckets.push_back(std::move(bucket));
    }
  }

  WorkerProgram make_worker(int64_t stage, const Pipelines& pipelines) {
    const auto s = static_cast<size_t>(stage);
    WorkerProgram worker{.gradient = pipelines.parts[s].micro_batch};
    worker.weight_gradients = pipelines.parts[s].weight_gradients;
    worker.evaluation = pipelines.evaluation[s];
    worker.prediction = pipelines.prediction[s];
    worker.crossings = crossings_at(pipelines.crossings, stage);
    worker.evaluation_crossings = crossings_at(pipelines.evaluation_crossings, stage);
    worker.prediction_crossings = crossings_at(pipelines.prediction_crossings, stage);
    std::set<std::string> keeps;
    for (Holding& holding : holdings_of(program_, pipelines.divided.divisions, kModelGroup, kDataGroup)) {
      if (stage_of_parameter_[holding.variable] != stage) continue;  // one that no graph reads: stage 0
      if (holding.copies == kAllWorkers) holding.copies = whole_group();
      keeps.insert(holding.variable);
      worker.holdings.push_back(std::move(holding));
    }
    worker.update = update_of(pipelines.divided.step.update, keeps);
    worker.schedule =
        with_messages(one_forward_one_backward(static_cast<int>(stage), static_cast<int>(grid_.stages),
                                               options_.micro_batches),
                      worker.crossings, stage);
    worker.schedule.push_back(action::weight_gradients());
    if (!program_.buckets.empty()) {
      worker.schedule.push_back(action::sum_gradients());
      worker.schedule.push_back(action::finish_exchange());
    }
    for (const ScheduledAction& last : end_of_step()) worker.schedule.push_back(last);
    return worker;
  }

  const TrainingStep& step_;
  const WorkerGrid& grid_;
  const StageOptions& options_;
  int64_t together_;  // stages of a pipeline in a process, which has a part of one, or several whole ones
  Program program_;
  LayerSplits splits_;
  Cut cut_;
  std::map<std::string, int> stage_of_parameter_;
};

}  // namespace

Option micro_batches_option() {
  return {
      .name = "micro_batches",
      .fallback = int64_t{0},
      .rule = {.least = 0, .most = 65536},
      .help =
          "Number of micro-batches into which each batch is divided. 0: four per stage, or fewer for a model that normalises vectors over a batch, so that each has 8 samples. Batch normalisation uses the statistics of each micro-batch."};
}

int64_t micro_batches_of(const Attributes& options, int64_t stages, const TrainingStep& step,
                         int64_t shares) {
  constexpr int64_t kSamples = 8;  // whose statistics train as those of larger batches do
  const int64_t given = options.integer("micro_batches");
  if (given > 0) return given;
  if (layer_with_vector_norm(step.gradient).empty()) return 4 * stages;
  return std::clamp<int64_t>(step.gradient.batch() / shares / kSamples, 1, 4 * stages);
}

Program stage_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                      const WorkerGrid& grid, const StageOptions& options,
                      const std::vector<OperationCost>& costs) {
  check_workers(strategy, cluster, grid);
  return StageProgram(strategy, step, cluster, grid, options, costs).make();
}

}  // namespace telar
