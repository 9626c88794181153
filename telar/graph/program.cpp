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
    case Action::push_gradient: return "push_gradient";
    case Action::push_difference: return "push_difference";
    case Action::pull: return "pull";
  }
  return "?";
}

std::string text_of(const Cooperation& cooperation) {
  switch (cooperation.kind) {
    case Cooperation::Kind::lockstep: return "in lockstep";
    case Cooperation::Kind::rounds: return fmt::format("in rounds with {} backups", cooperation.backups);
    case Cooperation::Kind::free:
      return cooperation.staleness < 0 ? "each at its own pace"
                                       : fmt::format("each at most {} batches ahead", cooperation.staleness);
  }
  return "?";
}

std::string Program::str() const {
  std::string text =
      fmt::format("program {} of {} workers, {}", strategy, workers.size(), text_of(cooperation));
  text += micro_batches == 0 ? "\n" : fmt::format(", {} micro-batches\n", micro_batches);
  for (const WorkerGroups& named : groups) text += fmt::format("groups {}: {}\n", named.name, named.members);
  for (size_t b = 0; b < buckets.size(); ++b) {
    text += fmt::format("bucket {}: {}{}\n", b, fmt::join(buckets[b].parameters, ", "),
                        buckets[b].group == kAllWorkers ? "" : ", over " + buckets[b].group);
  }
  for (size_t w = 0; w < workers.size(); ++w) {
    std::vector<std::string> names;
    std::map<Action, int> micro_batch;
    for (const auto& [action, every] : workers[w].schedule) {
      names.push_back(every == 1 ? name_of(action) : fmt::format("{} every {}", name_of(action), every));
      if (action == Action::forward || action == Action::backward)
        names.back() += fmt::format(" {}", micro_batch[action]++);
    }
    text += fmt::format("worker {} on device {}: {}\n", w, workers[w].device, fmt::join(names, ", "));
    for (const Holding& holding : workers[w].holdings)
      text += fmt::format("keeps {}, as all of its group {}\n", holding.piece.name(), holding.copies);
    text += workers[w].gradient.str();
    if (!workers[w].weight_gradients.nodes().empty())
      text += fmt::format("worker {}, weight gradients\n", w) + workers[w].weight_gradients.str();
    if (!workers[w].holdings.empty()) {
      text += fmt::format("worker {}, update\n", w) + workers[w].update.str();
      text += fmt::format("worker {}, evaluation\n", w) + workers[w].evaluation.str();
    }
  }
  text += "update\n" + update.str();
  if (!servers) return text;
  text += servers->learning_rate ? fmt::format("servers, learning rate {}\n", *servers->learning_rate)
                                 : "servers, learning rate of the step\n";
  for (size_t s = 0; s < servers->servers.size(); ++s) {
    text += fmt::format("server {}\n", s) + servers->servers[s].update.str();
  }
  return text;
}

}  // namespace telar
