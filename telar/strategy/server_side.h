#pragma once

#include "telar/graph/ops/update.h"
#include "telar/strategy/strategy.h"

namespace telar {

/// The parameter servers that apply `update` (over whole variables) to what workers push: its operations cut by the placement of
/// the step's variables. Throws Error (user): no servers, a placement that is not complete, an update that clips (its norm goes over
/// all servers).
ServerSide make_server_side(const TrainingStep& step, Graph update, const Cluster& cluster,
                            const Placer& place, bool rounds);

/// The update graph in which every trained variable of the step's update moves by p −= lr·ĝ (and momentum), while running
/// statistics follow `step.update`.
Graph plain_update(const TrainingStep& step);

/// An update graph in which every variable that has a gradient, running statistics too, moves by SGD.
Graph sgd_of_everything(const TrainingStep& step, const SgdOptions& options);

/// The program of each worker (they are alike; it runs on the cluster's first device) and of the servers.
Program server_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                       std::vector<ScheduledAction> schedule, Graph worker_update, ServerSide servers);

}  // namespace telar
