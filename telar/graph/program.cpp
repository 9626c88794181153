#include "telar/graph/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "telar/core/error.h"

namespace telar {

std::string text_of(const ScheduledAction& scheduled) {
  std::string text(scheduled.kind.name());
  if (scheduled.every != 1) text += fmt::format(" every {}", scheduled.every);
  if (scheduled.micro_batch) text += fmt::format(" {}", *scheduled.micro_batch);
  if (!scheduled.payload.empty()) text += fmt::format(" as {}", scheduled.payload);
  if (scheduled.share < 1) text += fmt::format(" {}", scheduled.share);
  if (scheduled.group != kAllWorkers) text += fmt::format(" over {}", scheduled.group);
  if (!scheduled.store.empty()) text += fmt::format(" at {}", scheduled.store);
  return text;
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

const std::vector<int>& members_of(const Program& program, const std::string& group, size_t worker) {
  const int number = program.first_worker + static_cast<int>(worker);
  for (const WorkerGroups& named : program.groups) {
    if (named.name != group) continue;
    for (const std::vector<int>& members : named.members)
      if (std::ranges::find(members, number) != members.end()) return members;
  }
  throw run_error("worker {} belongs to no group '{}'", number, group);
}

const StoreProgram& only_store(const Program& program) {
  if (program.stores.size() == 1) return program.stores.front();
  throw run_error("the program of the strategy '{}' has {} stores, not one", program.strategy,
                  program.stores.size());
}

std::vector<int> stages_of(const Program& program, size_t worker) {
  if (program.stage_group != kAllWorkers) return members_of(program, program.stage_group, worker);
  std::vector<int> all(program.workers.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

size_t stage_of(const Program& program, size_t worker) {
  const std::vector<int> stages = stages_of(program, worker);
  const int number = program.first_worker + static_cast<int>(worker);
  return static_cast<size_t>(std::ranges::find(stages, number) - stages.begin());
}

size_t pipeline_of(const Program& program, int number) {
  if (program.stage_group == kAllWorkers) return 0;
  for (const WorkerGroups& named : program.groups) {
    if (named.name != program.stage_group) continue;
    for (size_t p = 0; p < named.members.size(); ++p)
      if (std::ranges::find(named.members[p], number) != named.members[p].end()) return p;
  }
  throw run_error("worker {} is no stage of a pipeline", number);
}

namespace {

std::string text_of(const std::vector<Crossing>& crossings, int worker) {
  std::string text;
  for (const Crossing& crossing : crossings) {
    const bool sends = crossing.from == worker;
    text += fmt::format("{} {} {} worker {}, {}\n", sends ? "sends" : "receives", crossing.value,
                        sends ? "to" : "from", sends ? crossing.to : crossing.from,
                        crossing.forward ? "forward" : "backward");
  }
  return text;
}

std::string text_of(const std::vector<Piece>& pieces) {
  std::vector<std::string> names;
  for (const Piece& piece : pieces) names.push_back(piece.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Consecutive pieces of which there are as many copies are in one line.
std::string text_of(const std::vector<Holding>& holdings) {
  std::string text;
  for (auto begin = holdings.begin(); begin != holdings.end();) {
    const auto end = std::find_if(begin, holdings.end(),
                                  [&](const Holding& other) { return other.copies != begin->copies; });
    std::vector<Piece> pieces;
    for (auto holding = begin; holding != end; ++holding) pieces.push_back(holding->piece);
    text += fmt::format("keeps {}, as all of its group {}\n", text_of(pieces), begin->copies);
    begin = end;
  }
  return text;
}

std::string text_of(const StoreProgram& store) {
  std::string text =
      fmt::format("store {}, learning rate {}\n", store.name,
                  store.learning_rate ? fmt::format("{}", *store.learning_rate) : "of the step");
  for (size_t s = 0; s < store.servers.size(); ++s) {
    text += fmt::format("server {}\nkeeps {}\n", s, text_of(store.servers[s].pieces));
    text += store.servers[s].update.str();
  }
  return text;
}

}  // namespace

std::string Program::str() const {
  std::string text =
      fmt::format("program {} of {} workers, {}", strategy, workers.size(), text_of(cooperation));
  text += micro_batches == 0 ? "\n" : fmt::format(", {} micro-batches\n", micro_batches);
  if (shares_memory) text += "the workers of a process share one memory, and each updates a part of it\n";
  if (divides_state) text += "optimizer state: of each worker's part of the buckets\n";
  for (const WorkerGroups& named : groups) text += fmt::format("groups {}: {}\n", named.name, named.members);
  for (size_t b = 0; b < buckets.size(); ++b) {
    text += fmt::format("bucket {}: {}{}\n", b, fmt::join(buckets[b].parameters, ", "),
                        buckets[b].group == kAllWorkers ? "" : ", over " + buckets[b].group);
  }
  for (size_t w = 0; w < workers.size(); ++w) {
    std::vector<std::string> actions;
    for (const ScheduledAction& scheduled : workers[w].schedule) actions.push_back(text_of(scheduled));
    text += fmt::format("worker {} on device {}: {}\n", w, workers[w].device, fmt::join(actions, ", "));
    text += text_of(workers[w].holdings);
    const int number = first_worker + static_cast<int>(w);
    text += text_of(workers[w].crossings, number);
    text += workers[w].gradient.str();
    if (!workers[w].weight_gradients.nodes().empty())
      text += fmt::format("worker {}, weight gradients\n", w) + workers[w].weight_gradients.str();
    if (!shares_memory) {
      text += fmt::format("worker {}, update\n", w) + workers[w].update.str();
      text += fmt::format("worker {}, evaluation\n", w) + text_of(workers[w].evaluation_crossings, number) +
              workers[w].evaluation.str();
    }
  }
  text += "update\n" + update.str();
  for (const StoreProgram& store : stores) text += text_of(store);
  return text;
}

}  // namespace telar
