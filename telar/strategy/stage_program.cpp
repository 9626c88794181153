#include "telar/strategy/stage_program.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "telar/core/error.h"
#include "telar/graph/ops/stage.h"
#include "telar/graph/rewrite.h"
#include "telar/graph/training_step.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/cut_search.h"
#include "telar/strategy/pieces.h"
#include "telar/strategy/stage_cuts.h"
#include "telar/strategy/stage_graphs.h"

namespace telar {

namespace {

constexpr const char* kDataGroup = "data";
constexpr const char* kStages = "stages";

void require_places(size_t places, size_t stages) {
  if (places + 1 >= stages) return;
  throw user_error(
      "this model can be cut at {} places, so it has at most {} stages, not {}; lower strategy.stages",
      places, places + 1, stages);
}

/// The graphs of the stages into which a step is cut.
std::vector<StageGraphs> cut(const TrainingStep& step, const StageCuts& cuts,
                             const std::vector<size_t>& places, const std::vector<double>& update,
                             const std::vector<int>& threads, int64_t micro_batches,
                             const std::vector<OperationCost>& costs) {
  require_places(places.size(), threads.size());
  const int64_t batch = step.gradient.batch();
  const Graph micro = step.gradient.with_batch((batch + micro_batches - 1) / micro_batches);
  const std::vector<bool> left = left_for_the_end(step, cuts, micro);
  const std::vector<double> seconds = node_seconds(step.gradient, costs, left);
  const CutProblem problem{step, cuts, places, left, seconds, update, threads};
  const std::vector<int> stage_of_node = cuts.stages(best_cuts(problem, micro_batches));
  return make_stage_graphs(step, stage_of_node, static_cast<int>(threads.size()), left, micro);
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
std::vector<double> update_seconds(const TrainingStep& step) {
  constexpr double kBytesPerSecond = 1e10;
  std::map<std::string, double> bytes;
  for (const Value& value : step.update.values()) {
    if (!value.is_of_parameter()) continue;
    bytes[value.name] +=
        (value.kind == ValueKind::gradient ? 1 : 2) * static_cast<double>(value.type.bytes());
  }
  std::vector<double> seconds;
  for (const Node& node : step.gradient.nodes()) {
    const ParameterInfo* parameter = trained_by(step, node);
    seconds.push_back(parameter == nullptr ? 0 : bytes[parameter->name] / kBytesPerSecond);
  }
  return seconds;
}

/// The threads of each stage. Those of other processes are known only if the cluster lists all.
std::vector<int> threads_of_stages(const Cluster& cluster, const StageGrid& grid) {
  std::vector<int> threads = cluster.all_threads;
  if (threads.empty() && cluster.processes == 1)
    for (const DeviceSpec& device : cluster.devices) threads.push_back(device.threads);
  threads.resize(static_cast<size_t>(grid.stages), 1);
  return threads;
}

void check_workers(const std::string& strategy, const Cluster& cluster, const StageGrid& grid) {
  const auto local = static_cast<int64_t>(cluster.devices.size());
  if (local * cluster.processes != grid.data * grid.stages) {
    throw user_error(
        "strategy '{}' has {} stages in all processes together, but there are {} processes with {} each; start a number of processes that divides {}",
        strategy, grid.data * grid.stages, cluster.processes, local, grid.data * grid.stages);
  }
  if (local % grid.stages != 0 && grid.stages % local != 0) {
    throw user_error(
        "strategy '{}': a process has {} stages, which are neither a part nor a multiple of a pipeline of {}; use a number of processes so that they are",
        strategy, local, grid.stages);
  }
}

std::vector<WorkerGroups> groups_of(const StageGrid& grid) {
  WorkerGroups data{kDataGroup, std::vector<std::vector<int>>(static_cast<size_t>(grid.stages))};
  WorkerGroups stages{kStages, std::vector<std::vector<int>>(static_cast<size_t>(grid.data))};
  for (int64_t w = 0; w < grid.data * grid.stages; ++w) {
    data.members[static_cast<size_t>(w % grid.stages)].push_back(static_cast<int>(w));
    stages.members[static_cast<size_t>(w / grid.stages)].push_back(static_cast<int>(w));
  }
  return {std::move(data), std::move(stages)};
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

/// What the graphs of a stage read of other stages, and what they deliver.
struct StageValues {
  std::set<std::string> reads;
  std::vector<std::pair<std::string, bool>> delivers;  ///< name, and whether before the pause
};

StageValues values_of(const std::vector<const Graph*>& graphs) {
  StageValues values;
  for (const Graph* graph : graphs) {
    for (const Value& value : graph->values())
      if (value.kind == ValueKind::input && is_delivered(value.name)) values.reads.insert(value.name);
    bool forward = true;
    for (const Node& node : graph->nodes()) {
      if (node.op->effect() == Effect::pauses) forward = false;
      if (node.op->effect() == Effect::delivers)
        values.delivers.emplace_back(node.attributes.text("name"), forward);
    }
  }
  return values;
}

/// What passes between processes, if each has `local` consecutive stages of a pipeline or more. Stages are
/// numbered from 0. Of the stages of a process that read a value, the one that runs first receives it.
std::vector<Crossing> crossings_of(const std::vector<StageValues>& stages, size_t local) {
  std::vector<Crossing> crossings;
  for (size_t from = 0; from < stages.size(); ++from) {
    for (const auto& [name, forward] : stages[from].delivers) {
      std::map<size_t, size_t> receivers;  // by process
      for (size_t to = 0; to < stages.size(); ++to) {
        if (to / local == from / local || !stages[to].reads.contains(name)) continue;
        if (forward != (to > from)) throw run_error("'{}' passes against the order of the stages", name);
        const auto [known, fresh] = receivers.emplace(to / local, to);
        if (!fresh && !forward) known->second = to;  // backward, the last one runs first
      }
      for (const auto& [process, to] : receivers) {
        crossings.push_back({name, static_cast<int>(from), static_cast<int>(to), forward,
                             static_cast<int>(crossings.size())});
      }
    }
  }
  return crossings;
}

/// Those in which a worker takes part, for its pipeline. Numbers of the crossings of several pipelines
/// differ.
std::vector<Crossing> crossings_at(const std::vector<Crossing>& crossings, int worker, int stages) {
  std::vector<Crossing> mine;
  const int pipeline = worker / stages;
  for (Crossing crossing : crossings) {
    crossing.from += pipeline * stages;
    crossing.to += pipeline * stages;
    crossing.number += pipeline * static_cast<int>(crossings.size());
    if (crossing.from == worker || crossing.to == worker) mine.push_back(std::move(crossing));
  }
  return mine;
}

/// Adds what must be received before an action, and sent after it.
std::vector<ScheduledAction> with_messages(const std::vector<ScheduledAction>& schedule,
                                           const std::vector<Crossing>& crossings, int worker) {
  const auto has = [&](bool sends, bool forward) {
    return std::ranges::any_of(crossings, [&](const Crossing& crossing) {
      return (crossing.from == worker) == sends && crossing.forward == forward;
    });
  };
  std::vector<ScheduledAction> all;
  for (const ScheduledAction& scheduled : schedule) {
    const int64_t number = scheduled.micro_batch.value();
    const bool forward = scheduled.kind == action::kForward;
    if (has(false, forward))
      all.push_back(forward ? action::receive_forward(number) : action::receive_backward(number));
    all.push_back(scheduled);
    if (has(true, forward))
      all.push_back(forward ? action::send_forward(number) : action::send_backward(number));
  }
  return all;
}

}  // namespace

Option micro_batches_option() {
  return {
      .name = "micro_batches",
      .fallback = int64_t{0},
      .rule = {.least = 0, .most = 65536},
      .help =
          "Number of micro-batches into which each batch is divided. 0: four per stage. Batch normalisation uses the statistics of each micro-batch."};
}

int64_t micro_batches_of(const Attributes& options, int64_t stages) {
  const int64_t given = options.integer("micro_batches");
  return given > 0 ? given : 4 * stages;
}

Program pipeline_program(const TrainingStep& step, const Cluster& cluster, int64_t micro_batches,
                         const std::vector<OperationCost>& costs) {
  const StageCuts cuts(step);
  const auto stages = static_cast<int>(cluster.devices.size());
  const std::vector<double> nothing(step.gradient.nodes().size(), 0.0);
  const std::vector<int> threads = threads_of_stages(cluster, {.stages = stages});
  const std::vector<StageGraphs> parts =
      cut(step, cuts, cuts.places(), nothing, threads, micro_batches, costs);
  Program program = program_of(step, "pipeline");
  program.micro_batches = micro_batches;
  for (int s = 0; s < stages; ++s) {
    const StageGraphs& mine = parts[static_cast<size_t>(s)];
    std::vector<ScheduledAction> schedule = one_forward_one_backward(s, stages, micro_batches);
    schedule.push_back(action::weight_gradients());
    for (const ScheduledAction& last : end_of_step()) schedule.push_back(last);
    program.workers.push_back({s, mine.micro_batch, std::move(schedule), mine.weight_gradients});
  }
  share_memory(program);
  return program;
}

Program stage_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                      const StageGrid& grid, int64_t micro_batches, size_t bucket_bytes,
                      const std::vector<OperationCost>& costs) {
  check_workers(strategy, cluster, grid);
  const StageCuts cuts(step);
  const auto stages = static_cast<int>(grid.stages);
  const auto local = static_cast<int>(cluster.devices.size());
  const std::vector<StageGraphs> parts =
      cut(step, cuts, places_between_layers(step, cuts), update_seconds(step),
          threads_of_stages(cluster, grid), micro_batches, costs);

  std::map<std::string, int> stage_of_parameter = stages_of_parameters(parts);
  const auto cut_forward = [&](const Graph& graph) {
    return make_forward_graphs(graph, forward_stages(graph, stage_of_parameter), stages);
  };
  const std::vector<Graph> evaluation = cut_forward(step.evaluation);
  const std::vector<Graph> prediction = cut_forward(step.prediction);
  std::vector<StageValues> of_gradient;
  std::vector<StageValues> of_evaluation;
  std::vector<StageValues> of_prediction;
  for (size_t s = 0; s < parts.size(); ++s) {
    of_gradient.push_back(values_of({&parts[s].micro_batch, &parts[s].weight_gradients}));
    of_evaluation.push_back(values_of({&evaluation[s]}));
    of_prediction.push_back(values_of({&prediction[s]}));
  }
  const auto together = static_cast<size_t>(std::min(local, stages));
  const std::vector<Crossing> crossings = crossings_of(of_gradient, together);
  const std::vector<Crossing> evaluation_crossings = crossings_of(of_evaluation, together);
  const std::vector<Crossing> prediction_crossings = crossings_of(of_prediction, together);

  Program program = program_of(step, strategy);
  program.micro_batches = micro_batches;
  program.groups = groups_of(grid);
  program.stage_group = kStages;
  program.first_worker = cluster.process * local;
  program.share = BatchShare{program.first_worker / stages,
                             (program.first_worker + local + stages - 1) / stages, grid.data};
  if (grid.data > 1) {
    // Buckets of one stage are consecutive in its arenas.
    for (int s = 0; s < stages; ++s) {
      std::vector<ParameterInfo> kept;
      for (const ParameterInfo& parameter : program.parameters)
        if (stage_of_parameter[parameter.name] == s) kept.push_back(parameter);
      for (Bucket& bucket : make_buckets(kept, step.gradient, bucket_bytes,
                                         [](const std::string&) { return std::string(kDataGroup); }))
        program.buckets.push_back(std::move(bucket));
    }
  }
  for (int w = 0; w < local; ++w) {
    const int number = program.first_worker + w;
    const int stage = number % stages;
    const auto s = static_cast<size_t>(stage);
    WorkerProgram worker{.device = w, .gradient = parts[s].micro_batch};
    worker.weight_gradients = parts[s].weight_gradients;
    worker.evaluation = evaluation[s];
    worker.prediction = prediction[s];
    worker.crossings = crossings_at(crossings, number, stages);
    worker.evaluation_crossings = crossings_at(evaluation_crossings, number, stages);
    worker.prediction_crossings = crossings_at(prediction_crossings, number, stages);
    std::set<std::string> keeps;
    for (const ParameterInfo& parameter : program.parameters) {
      if (stage_of_parameter[parameter.name] != stage) continue;  // one that no graph reads: stage 0
      keeps.insert(parameter.name);
      worker.holdings.push_back({Piece::all_of(parameter), kDataGroup});
    }
    worker.update = update_of(step.update, keeps);
    worker.schedule =
        with_messages(one_forward_one_backward(stage, stages, micro_batches), worker.crossings, number);
    worker.schedule.push_back(action::weight_gradients());
    if (grid.data > 1) {
      worker.schedule.push_back(action::sum_gradients());
      worker.schedule.push_back(action::finish_exchange());
    }
    for (const ScheduledAction& last : end_of_step()) worker.schedule.push_back(last);
    program.workers.push_back(std::move(worker));
  }
  return program;
}

}  // namespace telar
