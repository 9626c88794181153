#include "telar/graph/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

std::string text_of(const ScheduledAction& scheduled) {
  std::string text(scheduled.kind.name());
  if (scheduled.after_work) {
    text += " after each piece of work";
  } else if (scheduled.every != 1) {
    text += fmt::format(" every {}", scheduled.every);
  }
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

Axes Program::along(const std::string& group) const {
  if (group == kAllWorkers) return mesh.names();
  const auto named = std::ranges::find(groups, group, &WorkerGroup::name);
  if (named == groups.end()) throw run_error("the program has no group '{}'", group);
  return named->along;
}

size_t phases_of(const WorkerProgram& kind) { return kind.later.size() + 1; }

size_t phase_at(const WorkerProgram& kind, int64_t step) {
  size_t phase = 0;
  while (phase < kind.later.size() && step > kind.later[phase].after) ++phase;
  return phase;
}

const Graph& gradient_in(const WorkerProgram& kind, size_t phase) {
  return phase == 0 ? kind.gradient : kind.later[phase - 1].gradient;
}

const std::vector<ScheduledAction>& schedule_in(const WorkerProgram& kind, size_t phase) {
  return phase == 0 ? kind.schedule : kind.later[phase - 1].schedule;
}

bool trains_alone(const std::vector<ScheduledAction>& schedule) {
  return std::ranges::find(schedule, action::kAverageParameters, &ScheduledAction::kind) != schedule.end();
}

bool trains_alone(const Program& program) {
  return std::ranges::any_of(program.kinds, [](const WorkerProgram& kind) {
    return trains_alone(kind.schedule) || std::ranges::any_of(kind.later, [](const LaterPhase& phase) {
             return trains_alone(phase.schedule);
           });
  });
}

std::vector<int> members_of(const Program& program, const std::string& group, int64_t worker) {
  return program.mesh.members(worker, program.along(group));
}

Piece piece_of(const Program& program, const Holding& holding, int64_t worker) {
  Piece piece{holding.variable, holding.shape, 0, holding.shape[holding.axis], holding.axis};
  if (holding.divided.empty()) return piece;
  const Axes along = program.along(holding.divided);
  const auto bounds = equal_parts(piece.end / holding.unit, program.mesh.size(along));
  const auto rank = static_cast<size_t>(program.mesh.rank(worker, along));
  piece.begin = bounds[rank] * holding.unit;
  piece.end = bounds[rank + 1] * holding.unit;
  return piece;
}

int64_t shares_of(const Program& program) { return program.mesh.workers() / program.mesh.size(kStageAxis); }

int64_t share_of(const Program& program, int64_t worker) { return program.mesh.group(worker, {kStageAxis}); }

BatchShare shares_of(const Program& program, int64_t process) {
  BatchShare shares{shares_of(program), 0, shares_of(program)};
  const int64_t first = program.mesh.first_of(process);
  for (int64_t w = first; w < first + program.mesh.of_process(); ++w) {
    shares.begin = std::min(shares.begin, share_of(program, w));
    shares.end = std::max(shares.end, share_of(program, w) + 1);
  }
  return shares;
}

const StoreProgram& only_store(const Program& program) {
  if (program.stores.size() == 1) return program.stores.front();
  throw run_error("the program of the strategy '{}' has {} stores, not one", program.strategy,
                  program.stores.size());
}

namespace {

/// The workers of a kind: "all workers", "workers at stage 1, model 0", "workers 0 to 3".
std::string text_of(const Mesh& mesh, const std::vector<int64_t>& workers) {
  if (std::ssize(workers) == mesh.workers()) return "all workers";
  std::vector<std::string> fixed;
  int64_t others = 1;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.size == 1) continue;
    const int64_t first = mesh.coordinate(workers.front(), axis.name);
    if (std::ranges::all_of(workers, [&](int64_t w) { return mesh.coordinate(w, axis.name) == first; })) {
      fixed.push_back(fmt::format("{} {}", axis.name, first));
    } else {
      others *= axis.size;
    }
  }
  if (others == std::ssize(workers)) return fmt::format("workers at {}", fmt::join(fixed, ", "));
  std::vector<std::string> ranges;
  for (size_t begin = 0, end = 0; begin < workers.size(); begin = end) {
    for (end = begin + 1; end < workers.size() && workers[end] == workers[end - 1] + 1; ++end) {
    }
    ranges.push_back(end == begin + 1 ? fmt::format("{}", workers[begin])
                                      : fmt::format("{} to {}", workers[begin], workers[end - 1]));
  }
  return fmt::format("workers {}", fmt::join(ranges, ", "));
}

std::string text_of(const std::vector<ScheduledAction>& schedule) {
  std::vector<std::string> actions;
  for (const ScheduledAction& scheduled : schedule) actions.push_back(text_of(scheduled));
  return fmt::format("{}", fmt::join(actions, ", "));
}

std::string text_of(const std::vector<Crossing>& crossings) {
  std::string text;
  for (const Crossing& crossing : crossings) {
    text += fmt::format("message {}: {} from stage {} to stage {}, {}\n", crossing.number, crossing.value,
                        crossing.from, crossing.to, crossing.forward ? "forward" : "backward");
  }
  return text;
}

std::string text_of(const std::vector<Piece>& pieces) {
  std::vector<std::string> names;
  for (const Piece& piece : pieces) names.push_back(piece.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string text_of(const Holding& holding) {
  if (holding.divided.empty()) return holding.variable;
  const std::string unit = holding.unit == 1 ? "" : fmt::format(" in units of {}", holding.unit);
  return fmt::format("{} divided along axis {}{} over {}", holding.variable, holding.axis, unit,
                     holding.divided);
}

std::string_view text_of(Update update) {
  switch (update) {
    case Update::whole: return "updates all of it";
    case Update::of_process: return "updates a share of it, as the others of its process";
    case Update::of_all: return "updates a share of it, and keeps optimizer state of that alone";
  }
  return "?";
}

/// Consecutive ones of which there are as many copies are in one line.
std::string text_of(const std::vector<Holding>& holdings) {
  std::string text;
  for (auto begin = holdings.begin(); begin != holdings.end();) {
    const auto end = std::find_if(begin, holdings.end(), [&](const Holding& other) {
      return other.copies != begin->copies || other.update != begin->update;
    });
    std::vector<std::string> kept;
    for (auto holding = begin; holding != end; ++holding) kept.push_back(text_of(*holding));
    text += fmt::format("keeps {}, as all of its group {}; {}\n", fmt::join(kept, ", "), begin->copies,
                        text_of(begin->update));
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
  std::string text = fmt::format("program {} of {}, {}", strategy, mesh.str(), text_of(cooperation));
  if (cooperation.work_steps > 1) text += fmt::format(", in pieces of {} batches", cooperation.work_steps);
  text += micro_batches == 0 ? "\n" : fmt::format(", {} micro-batches\n", micro_batches);
  if (!least.layer.empty())
    text +=
        fmt::format("{} needs {} samples of a batch, {} of a part\n", least.layer, least.batch, least.part);
  for (const WorkerGroup& named : groups)
    text += fmt::format("group {}: along {}\n", named.name,
                        named.along.empty() ? "no axis" : fmt::format("{}", fmt::join(named.along, ", ")));
  if (!batch_group.empty()) text += fmt::format("samples are exchanged over {}\n", batch_group);
  for (size_t b = 0; b < buckets.size(); ++b) {
    text += fmt::format("bucket {}: {}{}\n", b, fmt::join(buckets[b].parameters, ", "),
                        buckets[b].group == kAllWorkers ? "" : ", over " + buckets[b].group);
  }
  std::vector<std::vector<int64_t>> workers(kinds.size());
  for (int64_t w = 0; w < mesh.workers(); ++w)
    workers[kind_of_worker.empty() ? 0 : kind_of_worker[static_cast<size_t>(w)]].push_back(w);
  for (size_t k = 0; k < kinds.size(); ++k) {
    const WorkerProgram& kind = kinds[k];
    text += fmt::format("{}: {}\n", text_of(mesh, workers[k]), text_of(kind.schedule));
    if (kind.home == StateHome::of_process) text += "shares a memory with the workers of its process\n";
    text += text_of(kind.holdings) + text_of(kind.crossings) + kind.gradient.str();
    for (const LaterPhase& phase : kind.later)
      text += fmt::format("after step {}: {}\n", phase.after, text_of(phase.schedule)) + phase.gradient.str();
    if (!kind.weight_gradients.nodes().empty()) text += "weight gradients\n" + kind.weight_gradients.str();
    text += "update\n" + kind.update.str();
    text += "evaluation\n" + text_of(kind.evaluation_crossings) + kind.evaluation.str();
    text += "prediction\n" + text_of(kind.prediction_crossings) + kind.prediction.str();
  }
  for (const StoreProgram& store : stores) text += text_of(store);
  return text;
}

}  // namespace telar
