#include "telar/strategy/step_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "telar/core/error.h"
#include "telar/strategy/step_events.h"

namespace telar {

namespace {

/// A group of the workers that run, and what its members have exchanged so far.
struct RunningGroup {
  std::string name;
  std::vector<size_t> members;          // indices of workers
  std::vector<int64_t> exchanges = {};  // by member

  bool complete(size_t member) const {
    return std::ranges::all_of(exchanges, [&](int64_t made) { return made >= exchanges[member]; });
  }
};

class StepRun {
 public:
  StepRun(const Program& program, const std::vector<int64_t>& workers, size_t phase)
      : program_(program),
        mesh_(program.mesh),
        workers_(workers),
        places_(workers.size()),
        at_(workers.size()),
        waits_(workers.size()) {
    for (const int64_t worker : workers) events_.push_back(step_events(program, worker, phase));
    join(kAllWorkers);
    for (const WorkerGroup& group : program.groups) join(group.name);
  }

  void run() {
    for (const RunningGroup& group : groups_) check_order(group);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t i = 0; i < workers_.size(); ++i)
        for (; at_[i] < events_[i].size() && passes(i, events_[i][at_[i]]); ++at_[i]) moved = true;
    }
    for (size_t i = 0; i < workers_.size(); ++i)
      if (at_[i] < events_[i].size()) throw stuck(i, events_[i][at_[i]]);
    for (const auto& [message, left] : sent_) {
      const auto& [receiver, sender, what] = message;
      if (left > 0)
        throw run_error("{} is sent, but never received: by {}, to {}", what, worker_text(mesh_, sender),
                        worker_text(mesh_, receiver));
    }
  }

 private:
  using Kind = StepEvent::Kind;
  /// The group of a worker, and which of its members it is.
  struct Place {
    size_t group;
    size_t member;
  };

  void join(const std::string& name) {
    const Axes along = program_.along(name);
    std::map<int64_t, size_t> known;  // groups, by their number in the program
    for (size_t i = 0; i < workers_.size(); ++i) {
      const auto [group, fresh] = known.emplace(mesh_.group(workers_[i], along), groups_.size());
      if (fresh) groups_.push_back({name, {}});
      RunningGroup& joined = groups_[group->second];
      places_[i].emplace(name, Place{group->second, joined.members.size()});
      joined.members.push_back(i);
      joined.exchanges.push_back(0);
    }
  }

  /// What a worker exchanges with the group of this name.
  std::vector<const StepEvent*> exchanges_of(size_t worker, const std::string& group) const {
    std::vector<const StepEvent*> exchanges;
    for (const StepEvent& event : events_[worker])
      if ((event.kind == Kind::meets || event.kind == Kind::starts) && event.partner == group)
        exchanges.push_back(&event);
    return exchanges;
  }

  void check_order(const RunningGroup& group) const {
    const auto same = [](const StepEvent* a, const StepEvent* b) {
      return a->kind == b->kind && a->what == b->what;
    };
    const size_t first = group.members.front();
    const auto expected = exchanges_of(first, group.name);
    for (const size_t member : group.members) {
      const auto made = exchanges_of(member, group.name);
      const auto [a, b] = std::ranges::mismatch(expected, made, same);
      if (a == expected.end() && b == made.end()) continue;
      throw run_error("{} and {} are of the group '{}', but where one exchanges {}, the other exchanges {}",
                      worker_text(mesh_, workers_[first]), worker_text(mesh_, workers_[member]), group.name,
                      a == expected.end() ? "nothing" : (*a)->what, b == made.end() ? "nothing" : (*b)->what);
    }
  }

  /// Whether a worker can do its next event.
  bool passes(size_t i, const StepEvent& event) {
    switch (event.kind) {
      case Kind::stores: return true;
      case Kind::sends: ++sent_[{of_stage(i, event.stage), workers_[i], event.what}]; return true;
      case Kind::receives: {
        const auto found = sent_.find({workers_[i], of_stage(i, event.stage), event.what});
        return found != sent_.end() && found->second-- > 0;
      }
      case Kind::starts: ++exchanges(i, event.partner); return true;
      case Kind::meets:
        if (!waits_[i]) ++exchanges(i, event.partner);
        waits_[i] = !complete(i, event.partner);
        return !waits_[i];
      case Kind::finishes:
        return std::ranges::all_of(places_[i], [&](const auto& place) { return complete(i, place.first); });
    }
    return false;
  }

  int64_t of_stage(size_t i, int64_t stage) const { return mesh_.member(workers_[i], {kStageAxis}, stage); }
  int64_t& exchanges(size_t i, const std::string& group) {
    const Place& place = places_[i].at(group);
    return groups_[place.group].exchanges[place.member];
  }
  /// Whether all members of a worker's group have made as many exchanges as the worker.
  bool complete(size_t i, const std::string& group) const {
    const Place& place = places_[i].at(group);
    return groups_[place.group].complete(place.member);
  }

  Error stuck(size_t i, const StepEvent& event) const {
    const std::string from = event.kind == Kind::receives ? fmt::format(" from stage {}", event.stage)
                             : event.partner.empty()      ? ""
                                                          : fmt::format(" over '{}'", event.partner);
    return run_error("{} waits for ever for {}{}", worker_text(mesh_, workers_[i]), event.what, from);
  }

  const Program& program_;
  const Mesh& mesh_;
  const std::vector<int64_t>& workers_;
  std::vector<RunningGroup> groups_;
  std::vector<std::map<std::string, Place>> places_;  // of each worker, by the name of the group
  std::vector<std::vector<StepEvent>> events_;        // of each worker
  std::vector<size_t> at_;                            // the next of them
  std::vector<bool> waits_;                           // in an exchange that it has reached
  std::map<std::tuple<int64_t, int64_t, std::string>, int64_t> sent_;  // by receiver, sender and what
};

}  // namespace

std::string worker_text(const Mesh& mesh, int64_t worker) {
  std::string at;
  for (const MeshAxis& axis : mesh.axes())
    if (axis.size > 1)
      at += fmt::format("{}{} {}", at.empty() ? "" : ", ", axis.name, mesh.coordinate(worker, axis.name));
  return at.empty() ? fmt::format("worker {}", worker) : fmt::format("worker {} ({})", worker, at);
}

void run_symbolically(const Program& program, const std::vector<int64_t>& workers, size_t phase) {
  StepRun(program, workers, phase).run();
}

}  // namespace telar
