#pragma once

#include "telar/graph/ops/update.h"
#include "telar/strategy/placement.h"
#include "telar/strategy/strategy.h"

namespace telar {

/// What the strategies with parameter servers have in common: the workers are alike, each a process with one
/// device, and the servers' update is cut out of an update graph.

/// A strategy type with what all of them have in common: options `workers`, `placement` and `place`, and
/// their check. `more`: its own options, and `check` for those.
StrategyType server_strategy(std::string name, std::string summary,
                             std::function<Cooperation(const Attributes&)> cooperation,
                             std::vector<Option> more = {},
                             const std::function<void(const Attributes&)>& check = {});

/// Of strategies without rounds: by how much a worker may be ahead of the slowest one.
Option staleness_option();
/// Each worker at its own pace, within the option `staleness`.
Cooperation free_within_staleness(const Attributes& options, int64_t work_steps);

/// `more` and the options of strategies whose workers push gradients: `payload` and `share`.
std::vector<Option> with_payload_options(std::vector<Option> more);
/// Throws OptionError for a share of a payload that pushes everything.
void check_payload(const Attributes& options);
/// The push of gradients that these options describe.
ScheduledAction push_of(const Attributes& options, int64_t every = 1);

/// Of strategies whose workers train on their own.
Option average_every_option();
/// Of those whose workers push differences: `average_every`, and the SGD step of
/// the servers along the differences (`outer_learning_rate`, `outer_momentum`, `outer_nesterov`).
std::vector<Option> averaging_options();
/// Throws OptionError for Nesterov momentum without momentum.
void check_averaging(const Attributes& options);

/// The parameter servers that apply `update` (over whole variables) to what workers push. The placement of
/// the step's variables determines how its operations are divided among the servers. Throws Error (user): no
/// servers, an incomplete placement, an update that clips (its norm spans all servers).
StoreProgram make_server_side(const TrainingStep& step, Graph update, const Cluster& cluster,
                              const Placer& place);
/// The placement that the options `placement` and `place` describe.
Placer placer_for(const Attributes& options, int servers);

/// A program whose workers make steps of their own, with the optimizer of `step`. Every `average_every` steps
/// they push samples × (parameters at the last pull − parameters), along which the servers make an SGD step,
/// and pull.
Program averaging_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                          const Attributes& options);

/// The update graph that moves every trained variable by p −= lr·ĝ (with momentum, if any), and updates
/// running statistics as `step.update` does.
Graph plain_update(const TrainingStep& step);

/// An update graph in which every variable that has a gradient moves by SGD, running statistics included.
Graph sgd_of_everything(const TrainingStep& step, const SgdOptions& options);

/// The program of the workers (which are alike; each runs on the cluster's first device) and of the servers.
Program server_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                       std::vector<ScheduledAction> schedule, Graph worker_update, StoreProgram servers);

/// The part of a program with parameter servers that the coordinator runs. It does not train. Its update is
/// the servers' update, so its session has their state.
Program coordinator_program(Program program);

}  // namespace telar
