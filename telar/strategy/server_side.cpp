#include "telar/strategy/server_side.h"

#include <algorithm>
#include <map>

#include "telar/core/error.h"
#include "telar/io/payload.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/pieces.h"

namespace telar {

namespace {

UpdateInputs update_inputs(GraphBuilder& graph) {
  UpdateInputs inputs;
  inputs.learning_rate = graph.input("learning_rate", {DType::f32, {1}}, false);
  inputs.samples = graph.input("samples", {DType::f32, {1}}, false);
  inputs.step = graph.input("step", {DType::f32, {1}}, false);
  return inputs;
}

/// The update node of each variable.
std::map<std::string, const Node*> updates_of(const Graph& update) {
  std::map<std::string, const Node*> nodes;
  for (const Node& node : update.nodes()) {
    if (node.op->has_effect()) nodes[update.value(node.inputs[0]).name] = &node;
  }
  return nodes;
}

/// Adds the update of a piece of a variable: the same operation, over buffers of the piece's name and shape.
void add_piece(GraphBuilder& builder, const Graph& update, const Node& node, const Piece& piece) {
  const TensorType type{DType::f32, piece.piece_shape()};
  std::vector<ValueId> inputs;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) {
      inputs.push_back(kNoValue);
      continue;
    }
    Value value = update.value(id);
    if (value.is_of_parameter()) {
      value.name = piece.name();
      value.type = type;
    }
    inputs.push_back(builder.declare(value));
  }
  const ScopeGuard scope(builder, piece.name());
  builder.add(*node.op, std::move(inputs), node.attributes);
}

Graph update_of(const std::vector<Piece>& pieces, const Graph& update) {
  const auto nodes = updates_of(update);
  GraphBuilder builder;
  update_inputs(builder);
  for (const Piece& piece : pieces) builder.parameter(piece.name(), {DType::f32, piece.piece_shape()});
  for (const Piece& piece : pieces) {
    const auto node = nodes.find(piece.variable);  // frozen variables have none
    if (node != nodes.end()) add_piece(builder, update, *node->second, piece);
  }
  return builder.build();
}

bool clips(const Graph& update) {
  return std::any_of(update.nodes().begin(), update.nodes().end(),
                     [](const Node& node) { return node.op->name() == "clip_factor"; });
}

constexpr const char* kWhole = "whole";  // no payload
constexpr double kShare = 0.01;

bool chooses(const std::string& payload) {
  return payload != kWhole && payload_types()[payload_number(payload) - 1U].chooses;
}

}  // namespace

Placer placer_for(const Attributes& options, int servers) {
  Placer placer = placer_of(options.text("placement"));
  const std::vector<std::string>& given = options.texts("place");
  return given.empty() ? placer : place_by_name(placement_rules(given, servers), std::move(placer));
}

std::vector<Option> with_payload_options(std::vector<Option> more) {
  std::vector<std::string> names = {kWhole};
  std::string help = "How gradients are pushed. whole: every value as it is. ";
  for (const PayloadType& type : payload_types()) {
    names.push_back(type.name);
    help += type.help + " ";
  }
  help += "What is not pushed is added to the worker's next push. Within a host nothing is encoded.";
  more.push_back(
      {.name = "payload", .fallback = std::string(kWhole), .rule = {.choices = names}, .help = help});
  more.push_back({.name = "share",
                  .fallback = kShare,
                  .rule = {.least = 0, .most = 1, .above_least = true},
                  .help = "The part of a variable's values that payload `largest` pushes."});
  return more;
}

void check_payload(const Attributes& options) {
  const std::string& payload = options.text("payload");
  if (options.real("share") != kShare && !chooses(payload))
    throw OptionError("share", fmt::format("payload '{}' pushes all values, so it has no share", payload));
}

ScheduledAction push_of(const Attributes& options, int64_t every) {
  const std::string& payload = options.text("payload");
  if (payload == kWhole) return action::push_gradient(every);
  return action::push_gradient(every, payload, chooses(payload) ? options.real("share") : 1);
}

StrategyType server_strategy(std::string name, std::string summary,
                             std::function<Cooperation(const Attributes&)> cooperation,
                             std::vector<Option> more, const std::function<void(const Attributes&)>& check) {
  StrategyType type;
  type.name = std::move(name);
  type.summary = std::move(summary);
  type.worker = "worker";
  type.count = "workers";
  type.workers = [cooperation](const Attributes& options) {
    const int64_t workers = options.integer("workers");
    const bool rounds = cooperation(options).kind == Cooperation::Kind::rounds;
    return Workers{.count = workers, .shares = rounds ? workers : 1};
  };
  type.cooperation = std::move(cooperation);
  type.uses_servers = true;
  type.options = {
      {.name = "workers",
       .fallback = int64_t{2},
       .rule = {.least = 1, .most = 1024},
       .help =
           "Number of worker processes that compute at the same time. More may join; they wait as spares."}};
  type.options.insert(type.options.end(), more.begin(), more.end());
  type.options.push_back(
      {.name = "placement",
       .fallback = "greedy",
       .rule = {.choices = placement_policies()},
       .help =
           "Placement of variables on servers. greedy: the largest variable first, each on the server with the fewest bytes. partitioned: the same, but large variables are split by rows. round_robin: in turn."});
  type.options.push_back(
      {.name = "place",
       .fallback = std::vector<std::string>{},
       .help =
           "Variables that are assigned to a given server before the placement: `[\"conv*=0\", \"*.bias=1\"]`."});
  type.check = [check](const Attributes& options, int servers) {
    if (servers > 0) placer_for(options, servers);
    if (check) check(options);
  };
  return type;
}

Option staleness_option() {
  return {
      .name = "staleness",
      .fallback = int64_t{-1},
      .rule = {.least = -1, .most = 1e9},
      .help =
          "Maximum number of batches by which a worker may be ahead of the slowest one; it waits before it exceeds this number. -1: no limit."};
}

Cooperation free_within_staleness(const Attributes& options, int64_t work_steps) {
  return {
      .kind = Cooperation::Kind::free, .staleness = options.integer("staleness"), .work_steps = work_steps};
}

Option average_every_option() {
  return {.name = "average_every",
          .fallback = int64_t{10},
          .rule = {.least = 1, .most = 1e9},
          .help = "Steps of each worker between two averages."};
}

std::vector<Option> averaging_options() {
  return {
      average_every_option(),
      {.name = "outer_learning_rate",
       .fallback = 1.0,
       .rule = {.least = 0, .most = 1e6, .above_least = true},
       .help =
           "Learning rate of the step towards the workers' parameters. 1 without momentum: in rounds, the workers' mean itself."},
      {.name = "outer_momentum",
       .fallback = 0.0,
       .rule = {.least = 0, .most = 1, .below_most = true},
       .help = "Momentum of that step."},
      {.name = "outer_nesterov", .fallback = false, .help = "Uses Nesterov momentum for that step."}};
}

void check_averaging(const Attributes& options) {
  if (options.flag("outer_nesterov") && options.real("outer_momentum") == 0)
    throw OptionError("outer_nesterov",
                      "strategy.outer_nesterov requires momentum, but strategy.outer_momentum is 0");
}

Program averaging_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                          const Attributes& options) {
  const int64_t every = options.integer("average_every");
  StoreProgram servers = make_server_side(
      step,
      sgd_of_everything(
          step, {.momentum = options.real("outer_momentum"), .nesterov = options.flag("outer_nesterov")}),
      cluster, placer_for(options, cluster.servers));
  servers.learning_rate = options.real("outer_learning_rate");
  return server_program(strategy, step, cluster,
                        {action::compute_gradient(), action::update_shard(), action::push_difference(every),
                         action::pull_after_work(every)},
                        step.update, std::move(servers));
}

StoreProgram make_server_side(const TrainingStep& step, Graph update, const Cluster& cluster,
                              const Placer& place) {
  if (cluster.servers < 1)
    throw user_error("parameter servers are needed, at least 1; there are {}", cluster.servers);
  if (clips(step.update)) {
    throw user_error(
        "training.clip_norm needs the norm over all parameters, which are on several servers; leave it out, or choose mirrored");
  }
  Placement placement = place(step.parameters, cluster.servers);
  check_placement(placement, step.parameters, cluster.servers);
  std::map<std::string, size_t> ready;
  for (const ParameterInfo& parameter : in_gradient_order(step)) ready.emplace(parameter.name, ready.size());
  StoreProgram side{.update = std::move(update)};
  for (std::vector<Piece>& pieces : placement) {
    std::stable_sort(pieces.begin(), pieces.end(), [&](const Piece& a, const Piece& b) {
      return std::pair(ready.at(a.variable), a.begin) < std::pair(ready.at(b.variable), b.begin);
    });
    Graph own = update_of(pieces, side.update);
    side.servers.push_back({std::move(pieces), std::move(own)});
  }
  return side;
}

Graph plain_update(const TrainingStep& step) {
  GraphBuilder builder;
  const UpdateInputs inputs = update_inputs(builder);
  for (const auto& [name, node] : updates_of(step.update)) {
    builder.parameter(name, step.update.value(node->inputs[0]).type);
    const ScopeGuard scope(builder, name);
    if (node->op->name() == "running_average_update") {
      running_average_update(builder, name, inputs.samples, node->attributes.real("momentum"));
    } else {
      sgd_update(builder, name, inputs, {});
    }
  }
  return builder.build();
}

Graph sgd_of_everything(const TrainingStep& step, const SgdOptions& options) {
  GraphBuilder builder;
  const UpdateInputs inputs = update_inputs(builder);
  for (const auto& [name, node] : updates_of(step.update)) {
    builder.parameter(name, step.update.value(node->inputs[0]).type);
    const ScopeGuard scope(builder, name);
    sgd_update(builder, name, inputs, options);
  }
  return builder.build();
}

Program server_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                       std::vector<ScheduledAction> schedule, Graph worker_update, StoreProgram servers) {
  if (cluster.processes != 1) {
    throw user_error("strategy '{}' starts its own processes; start it alone, without mpirun or srun",
                     strategy);
  }
  Program program = program_of(step, strategy);
  program.update = std::move(worker_update);
  program.mesh = Mesh({{.name = kDataAxis, .open = true}}, 1);
  program.kinds.push_back({step.gradient, std::move(schedule)});
  program.stores.push_back(std::move(servers));
  share_memory(program);
  return program;
}

Program coordinator_program(Program program) {
  program.update = only_store(program).update;
  program.stores.clear();
  for (WorkerProgram& kind : program.kinds) {
    kind.schedule.clear();
    kind.update = program.update;
  }
  return program;
}

}  // namespace telar
