#include "telar/graph/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace telar {

std::string name_of(Action action) {
  switch (action) {
    case Action::compute_gradient: return "compute_gradient";
    case Action::finish_exchange: return "finish_exchange";
    case Action::exchange_metrics: return "exchange_metrics";
    case Action::exchange_norm: return "exchange_norm";
    case Action::update_shard: return "update_shard";
    case Action::wait_for_all: return "wait_for_all";
  }
  return "?";
}

std::string Program::str() const {
  std::string text = fmt::format("program {} of {} workers\n", strategy, workers.size());
  for (size_t b = 0; b < buckets.size(); ++b) {
    text += fmt::format("bucket {}: {}\n", b, fmt::join(buckets[b].parameters, ", "));
  }
  for (size_t w = 0; w < workers.size(); ++w) {
    std::vector<std::string> names;
    for (const Action action : workers[w].schedule) names.push_back(name_of(action));
    text += fmt::format("worker {} on device {}: {}\n", w, workers[w].device, fmt::join(names, ", "));
    text += workers[w].gradient.str();
  }
  return text + "update\n" + update.str();
}

}  // namespace telar
