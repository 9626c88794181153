#include "telar/strategy/divided_step.h"

#include <utility>

#include "telar/graph/forward_part.h"
#include "telar/strategy/pieces.h"

namespace telar {

DividedStep divide_step(const TrainingStep& step, const LayerSplits& splits, const SampleGroup& group) {
  DividedGraph forward = divide_layers(forward_of(step), splits, group);
  DividedStep divided{step, std::move(forward.divisions)};
  divided.step.gradient = gradient_of(forward.graph, step);
  divided.step.forward_nodes = forward.graph.nodes().size();
  divided.step.update = update_of_pieces(step.update, forward.pieces);
  divided.step.evaluation = divide_layers(step.evaluation, splits, group).graph;
  divided.step.prediction = divide_layers(step.prediction, splits, group).graph;
  return divided;
}

}  // namespace telar
