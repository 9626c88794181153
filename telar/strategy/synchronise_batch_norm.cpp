#include "telar/strategy/synchronise_batch_norm.h"

#include <map>

#include "telar/graph/ops/batch_norm.h"
#include "telar/graph/ops/communication.h"
#include "telar/graph/ops/distributed_batch_norm.h"
#include "telar/graph/rewrite.h"

namespace telar {

Option batch_norm_option() {
  return {
      .name = "batch_norm",
      .fallback = "local",
      .rule = {.choices = {"local", "synchronised"}},
      .help =
          "local: statistics of each worker's share of the batch. synchronised: statistics of the whole batch, as on one device."};
}

bool synchronises_batch_norm(const Attributes& options) {
  return options.text("batch_norm") == "synchronised";
}

Graph synchronise_batch_norm(
    const Graph& gradient,
    const std::function<std::optional<StatisticsGroup>(const std::string& gamma)>& group_of) {
  // From a batch norm's saved value (old id) to its statistics (new id).
  std::map<ValueId, ValueId> statistics_of;
  return rewrite_nodes(gradient, [&](GraphBuilder& builder, const Node& node, Remap& remap) {
    const bool forward = node.op->name() == "batch_norm";
    const bool backward = node.op->name() == "batch_norm_backward";
    const ValueId scale = forward ? node.inputs[1] : backward ? node.inputs[2] : kNoValue;
    const auto group =
        scale == kNoValue ? std::optional<StatisticsGroup>() : group_of(gradient.value(scale).name);
    if (!group) {
      copy_node(builder, node, remap);
    } else if (forward) {
      const ValueId x = remap(node.inputs[0]);
      const ValueId gathered =
          all_gather(builder, batch_norm_statistics(builder, x), group->members, group->name);
      const BatchStatistics combined = combine_statistics(builder, gathered, has_biased_variance(node));
      remap.set(node.outputs[0], batch_norm_apply(builder, x, remap(node.inputs[1]), remap(node.inputs[2]),
                                                  combined.statistics, node.attributes.real("epsilon")));
      remap.set(node.outputs[1], combined.mean);
      remap.set(node.outputs[2], combined.variance);
      statistics_of[node.outputs[3]] = combined.statistics;
    } else {
      const ValueId x = remap(node.inputs[0]);
      const ValueId dy = remap(node.inputs[1]);
      const ValueId gamma = remap(node.inputs[2]);
      const ValueId statistics = statistics_of.at(node.inputs[3]);
      const double epsilon = node.attributes.real("epsilon");
      const BatchNormSums sums = batch_norm_backward_sums(builder, x, dy, statistics, epsilon);
      const ValueId gathered = all_gather(builder, sums.both, group->members, group->name);
      remap.set(node.outputs[0],
                batch_norm_backward_apply(builder, x, dy, gamma, statistics, gathered, epsilon));
      remap.set(node.outputs[1], sums.gamma);
      remap.set(node.outputs[2], sums.beta);
    }
  });
}

}  // namespace telar
