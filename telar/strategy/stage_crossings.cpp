#include "telar/strategy/stage_crossings.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "telar/core/error.h"
#include "telar/graph/ops/stage.h"

namespace telar {

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

std::vector<Crossing> crossings_of(const std::vector<StageValues>& stages, size_t together) {
  std::vector<Crossing> crossings;
  for (size_t from = 0; from < stages.size(); ++from) {
    for (const auto& [name, forward] : stages[from].delivers) {
      std::map<size_t, size_t> receivers;  // by process
      for (size_t to = 0; to < stages.size(); ++to) {
        if (to / together == from / together || !stages[to].reads.contains(name)) continue;
        if (forward != (to > from)) throw run_error("'{}' passes against the order of the stages", name);
        const auto [known, fresh] = receivers.emplace(to / together, to);
        if (!fresh && !forward) known->second = to;  // backward, the last one runs first
      }
      for (const auto& [process, to] : receivers) {
        crossings.push_back(
            {name, static_cast<int64_t>(from), static_cast<int64_t>(to), forward, std::ssize(crossings)});
      }
    }
  }
  return crossings;
}

std::vector<Crossing> crossings_at(const std::vector<Crossing>& crossings, int64_t stage) {
  std::vector<Crossing> mine;
  std::ranges::copy_if(crossings, std::back_inserter(mine), [&](const Crossing& crossing) {
    return crossing.from == stage || crossing.to == stage;
  });
  return mine;
}

std::vector<ScheduledAction> with_messages(const std::vector<ScheduledAction>& schedule,
                                           const std::vector<Crossing>& crossings, int64_t stage) {
  const auto has = [&](bool sends, bool forward) {
    return std::ranges::any_of(crossings, [&](const Crossing& crossing) {
      return (crossing.from == stage) == sends && crossing.forward == forward;
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

}  // namespace telar
