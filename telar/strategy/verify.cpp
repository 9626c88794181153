#include "telar/strategy/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "telar/core/error.h"
#include "telar/graph/ops/stage.h"
#include "telar/io/payload.h"
#include "telar/strategy/step_events.h"
#include "telar/strategy/step_run.h"

namespace telar {

namespace {

/// Two workers of each kind, or one if there is only one.
std::vector<int64_t> representatives(const Program& program) {
  std::vector<int> found(program.kinds.size(), 0);
  std::vector<int64_t> workers;
  for (int64_t w = 0; w < program.mesh.workers(); ++w) {
    const size_t kind = program.kind_of_worker.empty() ? 0 : program.kind_of_worker[static_cast<size_t>(w)];
    if (found[kind] < 2) {
      ++found[kind];
      workers.push_back(w);
    }
  }
  return workers;
}

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program), mesh_(program.mesh) {}

  void run() {
    check_kinds();
    check_names();
    workers_ = representatives(program_);
    for (const ParameterInfo& parameter : program_.parameters) check_holders(parameter.name);
    for (const int64_t worker : workers_) check_graphs(worker);
    for (size_t phase = 0; phase < phases_of(program_.kinds.front()); ++phase) {
      for (const int64_t worker : workers_) check_sums(worker, phase);
      run_symbolically(program_, workers_, phase);
      for (const int64_t worker : workers_) check_commit_point(worker, phase);
    }
  }

 private:
  void check_kinds() const {
    if (program_.kind_of_worker.empty() && program_.kinds.size() == 1) return;
    if (std::ssize(program_.kind_of_worker) != mesh_.workers())
      throw run_error("the program has kinds for {} workers, but {} workers", program_.kind_of_worker.size(),
                      mesh_.workers());
    for (const WorkerProgram& kind : program_.kinds)
      if (!std::ranges::equal(kind.later, program_.kinds.front().later, {}, &LaterPhase::after,
                              &LaterPhase::after))
        throw run_error("the program has kinds of workers with other phases");
    for (const size_t kind : program_.kind_of_worker)
      if (kind >= program_.kinds.size()) throw run_error("the program has no kind {} of workers", kind);
  }

  void check_names() const {
    const Axes axes = mesh_.names();
    std::set<std::string> known{kAllWorkers};
    for (const auto& [name, along] : program_.groups) {
      if (!known.insert(name).second) throw run_error("the program has two groups '{}'", name);
      for (const std::string& axis : along)
        if (std::ranges::find(axes, axis) == axes.end())
          throw run_error("the group '{}' is along '{}', which is no axis of the mesh", name, axis);
    }
    std::set<std::string> in_buckets;
    for (const Bucket& bucket : program_.buckets) {
      program_.along(bucket.group);  // throws if there is none
      for (const std::string& name : bucket.parameters)
        if (!in_buckets.insert(name).second) throw run_error("'{}' is in two buckets", name);
    }
    for (const WorkerProgram& kind : program_.kinds)
      for (size_t phase = 0; phase < phases_of(kind); ++phase)
        for (const ScheduledAction& scheduled : schedule_in(kind, phase)) check_names(scheduled);
  }

  void check_names(const ScheduledAction& scheduled) const {
    program_.along(scheduled.group);
    if (!scheduled.store.empty() &&
        std::ranges::find(program_.stores, scheduled.store, &StoreProgram::name) == program_.stores.end())
      throw run_error("'{}' exchanges with '{}', but the program has no such store",
                      telar::text_of(scheduled), scheduled.store);
    payload_number(scheduled.payload);  // throws for an unknown one
  }

  /// The workers that keep a variable are those of one group of parts and copies.
  void check_holders(const std::string& name) const {
    const Holding* rule = nullptr;
    int64_t first = 0;
    std::set<int64_t> holders;
    for (const int64_t worker : workers_) {
      const Holding* holding = holding_of(worker, name);
      if (holding == nullptr) continue;
      if (rule != nullptr && *holding != *rule)
        throw run_error("{} and {} keep '{}' by different rules", worker_text(mesh_, first),
                        worker_text(mesh_, worker), name);
      if (rule == nullptr) first = worker;
      rule = holding;
      holders.insert(worker);
    }
    if (rule == nullptr) throw run_error("no worker keeps '{}'", name);
    const Axes copies = program_.along(rule->copies);
    Axes all = copies;
    if (!rule->divided.empty()) {
      check_division(*rule);
      for (const std::string& axis : program_.along(rule->divided)) {
        if (std::ranges::find(copies, axis) != copies.end() && mesh_.size(axis) > 1)
          throw run_error("'{}' is divided over '{}', whose members are said to keep the same", name,
                          rule->divided);
        all.push_back(axis);
      }
    }
    for (const int64_t worker : workers_) {
      const bool of_group = mesh_.group(worker, all) == mesh_.group(first, all);
      if (of_group && !holders.contains(worker))
        throw run_error("{} does not keep '{}', although it is of the group that does",
                        worker_text(mesh_, worker), name);
      if (!of_group && holders.contains(worker))
        throw run_error("'{}' is kept twice: by {} and by {}, which is of no group with it", name,
                        worker_text(mesh_, first), worker_text(mesh_, worker));
    }
    check_sum(*rule, copies);
    check_update(*rule, first);
  }

  void check_division(const Holding& holding) const {
    const int64_t parts = mesh_.size(program_.along(holding.divided));
    const int64_t extent = holding.shape[holding.axis];
    if (holding.unit < 1 || extent % holding.unit != 0 || extent / holding.unit < parts)
      throw run_error(
          "'{}' has {} items along axis {}, which cannot be divided among {} workers in units of {}",
          holding.variable, extent, holding.axis, parts, holding.unit);
  }

  /// Whether the worker sums each bucket that it keeps once in a step.
  void check_sums(int64_t worker, size_t phase) const {
    const std::vector<ScheduledAction>& schedule = schedule_in(program_.worker(worker), phase);
    if (trains_alone(schedule)) check_alone(worker, phase);
    const std::vector<StepEvent> events = step_events(program_, worker, phase);
    for (size_t b = 0; b < program_.buckets.size(); ++b) {
      const bool kept = holding_of(worker, program_.buckets[b].parameters.front()) != nullptr;
      const auto sums = std::ranges::count_if(events, [&](const StepEvent& event) {
        return event.kind == StepEvent::Kind::starts && event.what == fmt::format("bucket {}", b);
      });
      if (sums != (kept ? 1 : 0))
        throw run_error("{} sums bucket {} {} times in a step{}", worker_text(mesh_, worker), b, sums,
                        phase == 0 ? "" : fmt::format(" of phase {}", phase));
    }
  }

  /// Workers in step exchange metrics when their sums are complete, and then update: so a worker that waits
  /// for one that is lost has not begun to update (docs/design.md, "A step is made again by those who are
  /// left").
  void check_commit_point(int64_t worker, size_t phase) const {
    const std::vector<ScheduledAction>& schedule = schedule_in(program_.worker(worker), phase);
    if (program_.cooperation.kind != Cooperation::Kind::lockstep || mesh_.workers() == 1 ||
        trains_alone(schedule))
      return;
    const auto exchange = std::ranges::find(schedule, action::exchange_metrics());
    for (auto at = schedule.begin(); at != schedule.end(); ++at) {
      const bool after = at->kind == action::kUpdateShard || at->kind == action::kExchangeNorm ||
                         at->kind == action::kWaitForAll;
      if (at != exchange && (at > exchange) != after)
        throw run_error("{} does '{}' {} all workers have their sums", worker_text(mesh_, worker),
                        telar::text_of(*at), after ? "before" : "after");
    }
  }

  /// A worker on its own updates all of it, and meets others for the mean alone.
  void check_alone(int64_t worker, size_t phase) const {
    const WorkerProgram& kind = program_.worker(worker);
    for (const Holding& holding : kind.holdings)
      if (holding.update != Update::whole || !holding.divided.empty() ||
          mesh_.size(program_.along(holding.copies)) != mesh_.workers())
        throw run_error("{} trains alone, but does not keep the whole of '{}' in a memory of its own",
                        worker_text(mesh_, worker), holding.variable);
    for (const Node& node : gradient_in(kind, phase).nodes())
      if (node.op->communicates())
        throw run_error("{} trains alone, but its gradient graph exchanges: {}", worker_text(mesh_, worker),
                        node.op->name());
    for (const ScheduledAction& scheduled : schedule_in(kind, phase))
      if (scheduled.kind == action::kExchangeMetrics || scheduled.kind == action::kWaitForAll)
        throw run_error("{} trains alone, but does '{}' with others", worker_text(mesh_, worker),
                        telar::text_of(scheduled));
  }

  /// Every worker adds the gradient of its samples, so those that keep the same need the sum of all.
  void check_sum(const Holding& holding, const Axes& copies) const {
    if (mesh_.size(copies) == 1 || !program_.update.has(ValueKind::gradient, holding.variable)) return;
    const auto bucket = std::ranges::find_if(program_.buckets, [&](const Bucket& candidate) {
      return std::ranges::find(candidate.parameters, holding.variable) != candidate.parameters.end();
    });
    if (bucket == program_.buckets.end())
      throw run_error("the gradient of '{}' is not summed over those that keep the same", holding.variable);
    const Axes summed = program_.along(bucket->group);
    for (const MeshAxis& axis : mesh_.axes()) {
      const bool in_sum = std::ranges::find(summed, axis.name) != summed.end();
      const bool in_copies = std::ranges::find(copies, axis.name) != copies.end();
      if (axis.size > 1 && in_sum != in_copies)
        throw run_error("the gradient of '{}' is summed over '{}', but kept by all of '{}'", holding.variable,
                        bucket->group, holding.copies);
    }
  }

  /// Shares are of a memory that several workers have in common, whole.
  void check_update(const Holding& holding, int64_t worker) const {
    const WorkerProgram& kind = program_.worker(worker);
    if (holding.update != kind.holdings.front().update)
      throw run_error("{} updates '{}' and '{}' by different rules", worker_text(mesh_, worker),
                      kind.holdings.front().variable, holding.variable);
    const bool shared = kind.home == StateHome::of_process;
    if (shared != (holding.update != Update::whole))
      throw run_error("'{}' is updated {}, but kept in a memory of {}", holding.variable,
                      shared ? "whole" : "by shares", shared ? "the process" : "the worker");
    if (shared && (!holding.divided.empty() || mesh_.size(program_.along(holding.copies)) != mesh_.workers()))
      throw run_error("'{}' is in the memory of a process, but not kept whole by all workers",
                      holding.variable);
  }

  const Holding* holding_of(int64_t worker, const std::string& variable) const {
    const std::vector<Holding>& holdings = program_.worker(worker).holdings;
    const auto found = std::ranges::find(holdings, variable, &Holding::variable);
    return found == holdings.end() ? nullptr : &*found;
  }

  /// Parameters, gradients and optimizer state of the pieces that the worker keeps; values from stages that
  /// deliver them.
  void check_graphs(int64_t worker) const {
    const WorkerProgram& kind = program_.worker(worker);
    for (size_t phase = 0; phase < phases_of(kind); ++phase)
      check_graph(worker, gradient_in(kind, phase), &WorkerProgram::crossings);
    check_graph(worker, kind.weight_gradients, &WorkerProgram::crossings);
    check_graph(worker, kind.update, nullptr);
    check_graph(worker, kind.evaluation, &WorkerProgram::evaluation_crossings);
    check_graph(worker, kind.prediction, &WorkerProgram::prediction_crossings);
  }

  using Crossings = std::vector<Crossing> WorkerProgram::*;

  void check_graph(int64_t worker, const Graph& graph, Crossings crossings) const {
    for (const Value& value : graph.values()) {
      if (value.is_of_parameter()) {
        const Holding* holding = holding_of(worker, value.name);
        if (holding == nullptr)
          throw run_error("{} computes with '{}', which it does not keep", worker_text(mesh_, worker),
                          value.name);
        const Shape kept = piece_of(program_, *holding, worker).piece_shape();
        if (value.type.shape != kept)
          throw run_error("{} keeps {} of '{}', but its graph is made for {}", worker_text(mesh_, worker),
                          kept.str(), value.name, value.type.shape.str());
      } else if (value.kind == ValueKind::input && is_delivered(value.name) &&
                 !arrives(worker, value.name, crossings)) {
        throw run_error("{} reads {}, which no other stage delivers to it", worker_text(mesh_, worker),
                        value.name);
      }
    }
  }

  bool arrives(int64_t worker, const std::string& value, Crossings crossings) const {
    const int64_t process = mesh_.process_of(worker);
    const auto of_stage = [&](int64_t stage) { return mesh_.member(worker, {kStageAxis}, stage); };
    const auto delivers = [&](int64_t from) {
      const WorkerProgram& kind = program_.worker(from);
      const bool trains = crossings == &WorkerProgram::crossings;
      const bool evaluates = crossings == &WorkerProgram::evaluation_crossings;
      const Graph& graph = trains ? kind.gradient : evaluates ? kind.evaluation : kind.prediction;
      return std::ranges::any_of(graph.nodes(), [&](const Node& node) {
        return node.op->effect() == Effect::delivers && node.attributes.text("name") == value;
      });
    };
    for (int64_t stage = 0; stage < mesh_.size(kStageAxis); ++stage) {
      const int64_t other = of_stage(stage);
      if (mesh_.process_of(other) == process && delivers(other)) return true;
      // A value is sent to one stage of the process, which all of its stages read.
      for (const Crossing& crossing : program_.worker(other).*crossings)
        if (crossing.value == value && crossing.from == stage && delivers(other) &&
            mesh_.process_of(of_stage(crossing.to)) == process)
          return true;
    }
    return false;
  }

  const Program& program_;
  const Mesh& mesh_;
  std::vector<int64_t> workers_;  // representatives
};

}  // namespace

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace telar
