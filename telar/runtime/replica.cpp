#include "telar/runtime/replica.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/runtime/pipeline_stage.h"

namespace telar {

Replica::Replica(const Program& program, int64_t number, std::unique_ptr<Device> device,
                 WorkerOptions options)
    : context_(program, number, std::move(device), std::move(options)) {}

void Replica::attach(SharedState& state) {
  context_.attach(state);
  for (size_t phase = 0; phase < phases_of(context_.worker()); ++phase) {
    std::vector<Periodic>& schedule = schedules_.emplace_back();
    for (const ScheduledAction& scheduled : schedule_in(context_.worker(), phase))
      schedule.push_back({scheduled, make_action(scheduled, context_)});
  }
}

void Replica::run_schedule(const StepRequest& request) {
  context_.begin_step(request);
  for (const auto& [scheduled, action] : schedule())
    if (context_.is_due(scheduled)) action->run(context_);
}

WorkerStep Replica::train(const BatchView& part, const StepInputs& inputs, double samples, bool repeats) {
  if (!repeats) ++steps_;
  run_schedule({.part = part, .inputs = inputs, .samples = samples, .number = steps_});
  return context_.end_step();
}

bool Replica::can_run_ahead() const {
  return context_.timeline() == nullptr && !device().in_host_memory() &&
         std::ranges::all_of(schedules_, [&](const std::vector<Periodic>& schedule) {
           return std::ranges::all_of(
               schedule, [&](const Periodic& periodic) { return periodic.action->may_run_ahead(context_); });
         });
}

void Replica::begin(const BatchView& part, const StepInputs& inputs, double samples) {
  if (!ahead_) ahead_.emplace(device(), context_.metrics());
  run_schedule({.part = part, .inputs = inputs, .samples = samples, .number = ++steps_, .ahead = true});
  context_.finish_sums();  // if no action needed them
  ahead_->begun();
}

bool Replica::result_is_due(bool early) const {
  return ahead_ && (ahead_->full() || (early && ahead_->oldest_is_done()));
}

StepResult Replica::finished() {
  if (!ahead_) throw run_error("there is no result, because no step was begun");
  return ahead_->finished();
}

std::vector<double> Replica::evaluate(const BatchView& part) {
  StepMetrics& metrics = context_.metrics();
  metrics.clear();
  if (context_.stage() != nullptr) {
    if (part.size > 0 || !part.rows.empty()) context_.stage()->evaluation().run(part);
  } else if (context_.graphs().runs(CompiledGraphs::Purpose::evaluation, part)) {
    Context& graph = context_.graphs().context(CompiledGraphs::Purpose::evaluation, part);
    context_.set_inputs(graph, part, 0);
    graph.run(context_);
  }
  if (Group* group = context_.group()) group->all_reduce(metrics.values());
  const std::span<const float> sums = metrics.values();
  return {sums.begin(), sums.end()};
}

std::vector<float> Replica::predict(const BatchView& part) {
  context_.metrics().clear();
  if (context_.stage() != nullptr)
    return part.size > 0 || !part.rows.empty() ? context_.stage()->predict(part) : std::vector<float>();
  if (!context_.graphs().runs(CompiledGraphs::Purpose::prediction, part)) return {};
  Context& graph = context_.graphs().context(CompiledGraphs::Purpose::prediction, part);
  context_.set_inputs(graph, part, 0);
  graph.run(context_);
  return part.size == 0 ? std::vector<float>() : graph.output("prediction");
}

void Replica::compute_again(const StepRequest& request) {
  context_.begin_step(request);
  for (const Periodic& periodic : schedule()) periodic.action->compute_again(context_);
}

NonFinite Replica::find_non_finite(const BatchView& part, const StepInputs& inputs) {
  compute_again({.part = part, .inputs = inputs, .number = steps_, .inspects = true});
  return context_.found();
}

std::vector<OperationTime> Replica::profile(const BatchView& part, const StepInputs& inputs) {
  const auto times =
      context_.time_operations([&] { compute_again({.part = part, .inputs = inputs, .number = steps_}); });
  return context_.stage() == nullptr ? times : summed_over_micro_batches(times);
}

}  // namespace telar
