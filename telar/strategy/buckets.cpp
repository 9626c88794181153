#include "telar/strategy/buckets.h"

#include <algorithm>
#include <map>
#include <utility>

#include "telar/graph/ops/communication.h"
#include "telar/graph/rewrite.h"

namespace telar {

namespace {

/// The name of the parameter whose gradient this node completes; empty when there is none.
std::string completes(const Graph& graph, const Node& node) {
  if (node.op->effect() != Effect::accumulates) return "";
  const Value& buffer = graph.value(node.inputs[0]);
  return buffer.kind == ValueKind::gradient ? buffer.name : "";
}

}  // namespace

std::vector<ParameterInfo> in_gradient_order(const TrainingStep& step) {
  std::map<std::string, size_t> place;
  for (const Node& node : step.gradient.nodes()) {
    const std::string name = completes(step.gradient, node);
    if (!name.empty()) place.emplace(name, place.size());
  }
  const auto rank = [&](const ParameterInfo& parameter) {
    const auto found = place.find(parameter.name);
    if (found == place.end()) return std::pair<int, size_t>(2, 0);
    return std::pair<int, size_t>(parameter.trainable ? 0 : 1, found->second);
  };
  std::vector<ParameterInfo> ordered = step.parameters;
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const ParameterInfo& a, const ParameterInfo& b) { return rank(a) < rank(b); });
  return ordered;
}

Option bucket_option() {
  return {.name = "bucket_mb",
          .fallback = 4.0,
          .rule = {.least = 0, .most = 65536, .above_least = true},
          .help = "Size of the buckets in which gradients are exchanged."};
}

size_t bucket_bytes(const Attributes& options) {
  return static_cast<size_t>(options.real("bucket_mb") * (1 << 20));
}

std::vector<Bucket> make_buckets(const std::vector<ParameterInfo>& parameters, const Graph& gradient,
                                 size_t bytes,
                                 const std::function<std::string(const std::string&)>& group_of) {
  struct Open {
    size_t bucket;
    size_t filled;
  };
  std::map<std::string, Open> open;  // by group
  std::vector<Bucket> buckets;
  for (const ParameterInfo& parameter : parameters) {
    if (!gradient.has(ValueKind::gradient, parameter.name)) continue;
    const std::string group = group_of ? group_of(parameter.name) : kAllWorkers;
    if (group.empty()) continue;
    const auto [place, fresh] = open.try_emplace(group, Open{0, bytes});
    Open& current = place->second;
    if (current.filled >= bytes) {
      current = {buckets.size(), 0};
      buckets.push_back({{}, group});
    }
    buckets[current.bucket].parameters.push_back(parameter.name);
    current.filled += static_cast<size_t>(parameter.shape.elements()) * sizeof(float);
  }
  return buckets;
}

Graph insert_bucket_reductions(const Graph& gradient, const std::vector<Bucket>& buckets) {
  std::map<std::string, size_t> bucket_of;
  std::vector<size_t> missing;
  for (size_t b = 0; b < buckets.size(); ++b) {
    missing.push_back(buckets[b].parameters.size());
    for (const auto& name : buckets[b].parameters) bucket_of[name] = b;
  }
  std::vector<bool> started(buckets.size(), false);
  // Every member of a group starts the buckets of the group in the same order.
  const auto is_next = [&](size_t bucket) {
    for (size_t b = 0; b < bucket; ++b)
      if (!started[b] && buckets[b].group == buckets[bucket].group) return false;
    return !started[bucket] && missing[bucket] == 0;
  };
  return rewrite_nodes(gradient, [&](GraphBuilder& builder, const Node& node, Remap& remap) {
    copy_node(builder, node, remap);
    const auto found = bucket_of.find(completes(gradient, node));
    if (found == bucket_of.end()) return;
    --missing[found->second];
    for (size_t b = found->second; b < buckets.size(); ++b) {
      if (!is_next(b)) continue;
      reduce_bucket(builder, static_cast<int64_t>(b));
      started[b] = true;
    }
  });
}

}  // namespace telar
