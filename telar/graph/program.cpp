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
    case Action::push_gradient: return "push_gradient";
    case Action::push_difference: return "push_difference";
    case Action::pull: return "pull";
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
    for (const auto& [action, every] : workers[w].schedule) {
      names.push_back(every == 1 ? name_of(action) : fmt::format("{} every {}", name_of(action), every));
    }
    text += fmt::format("worker {} on device {}: {}\n", w, workers[w].device, fmt::join(names, ", "));
    text += workers[w].gradient.str();
  }
  text += "update\n" + update.str();
  if (!servers) return text;
  text += servers->rounds ? "servers, in rounds\n" : "servers, each push by itself\n";
  for (size_t s = 0; s < servers->servers.size(); ++s) {
    text += fmt::format("server {}\n", s) + servers->servers[s].update.str();
  }
  return text;
}

}  // namespace telar
