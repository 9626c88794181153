#include "telar/graph/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace telar {

std::string name_of(Action action) {
  switch (action) {
    case Action::compute_gradient: return "compute_gradient";
    case Action::finish_exchange: return "finish_exchange";
    case Action::exchange_metrics: return "exchange_metrics";
    case Action::exchange_norm: return "exchange_norm";
    case Action::update_shard: return "update_shard";
    case Action::wait_for_all: return "wait_for_all";
    case Action::forward: return "forward";
    case Action::backward: return "backward";
    case Action::weight_gradients: return "weight_gradients";
  }
  return "?";
}

std::string Program::str() const {
  std::string text = fmt::format("program {} of {} workers", strategy, workers.size());
  text += micro_batches == 0 ? "\n" : fmt::format(", {} micro-batches\n", micro_batches);
  for (size_t b = 0; b < buckets.size(); ++b) {
    text += fmt::format("bucket {}: {}\n", b, fmt::join(buckets[b].parameters, ", "));
  }
  for (size_t w = 0; w < workers.size(); ++w) {
    std::vector<std::string> names;
    std::map<Action, int> micro_batch;
    for (const Action action : workers[w].schedule) {
      names.push_back(name_of(action));
      if (action == Action::forward || action == Action::backward)
        names.back() += fmt::format(" {}", micro_batch[action]++);
    }
    text += fmt::format("worker {} on device {}: {}\n", w, workers[w].device, fmt::join(names, ", "));
    text += workers[w].gradient.str();
    if (!workers[w].weight_gradients.nodes().empty())
      text += fmt::format("worker {}, weight gradients\n", w) + workers[w].weight_gradients.str();
  }
  return text + "update\n" + update.str();
}

}  // namespace telar
