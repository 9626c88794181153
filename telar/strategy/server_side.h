#pragma once

#include "telar/graph/ops/update.h"
#include "telar/strategy/strategy.h"

namespace telar {

/// The parameter servers that apply `update` (over whole variables) to what workers push. The placement of
/// the step's variables determines how its operations are divided among the servers. Throws Error (user): no
/// servers, an incomplete placement, an update that clips (its norm spans all servers).
ServerSide make_server_side(const TrainingStep& step, Graph update, const Cluster& cluster,
                            const Placer& place, bool rounds);

/// The update graph that moves every trained variable by p −= lr·ĝ (with momentum, if any), and updates
/// running statistics as `step.update` does.
Graph plain_update(const TrainingStep& step);

/// An update graph in which every variable that has a gradient moves by SGD, running statistics included.
Graph sgd_of_everything(const TrainingStep& step, const SgdOptions& options);

/// The program of the workers (which are alike; each runs on the cluster's first device) and of the servers.
Program server_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                       std::vector<ScheduledAction> schedule, Graph worker_update, ServerSide servers);

}  // namespace telar
