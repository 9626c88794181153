#include "telar/runtime/pipeline_stage.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "telar/core/error.h"
#include "telar/graph/fuse_activations.h"
#include "telar/graph/training_step.h"
#include "telar/runtime/shares.h"

namespace telar {

namespace {

/// Names of the parameters whose gradients a graph computes.
std::vector<std::string> trained_by(const Graph& graph) {
  std::vector<std::string> names;
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::buffer && value.name.starts_with(kGradientPrefix))
      names.push_back(value.name.substr(kGradientPrefix.size()));
  }
  return names;
}

/// The largest number of micro-batches between forward and backward.
size_t schedule_depth(const std::vector<ScheduledAction>& schedule, int64_t micro_batches) {
  int64_t depth = 1;
  int64_t forward = 0;
  int64_t backward = 0;
  for (const ScheduledAction& scheduled : schedule) {
    const bool is_forward = scheduled.kind == action::kForward;
    if (!is_forward && scheduled.kind != action::kBackward) continue;
    const int64_t next = is_forward ? forward++ : backward++;
    if (scheduled.micro_batch != next || backward > forward || scheduled.every != 1)
      throw run_error("'{}' is out of order in the schedule of a stage", text_of(scheduled));
    depth = std::max(depth, forward - backward);
  }
  if (forward != micro_batches || backward != micro_batches) {
    throw run_error("the schedule of a stage takes {} of the {} micro-batches forward and {} back", forward,
                    micro_batches, backward);
  }
  return static_cast<size_t>(depth);
}

}  // namespace

std::vector<OperationTime> summed_over_micro_batches(const std::vector<OperationTime>& times) {
  std::vector<OperationTime> sums;
  for (const OperationTime& time : times) {
    const auto known = std::find_if(sums.begin(), sums.end(), [&](const OperationTime& other) {
      return other.scope == time.scope && other.op == time.op;
    });
    if (known == sums.end()) {
      sums.push_back(time);
    } else {
      known->seconds += time.seconds;
    }
  }
  return sums;
}

PipelineStage::PipelineStage(StepContext& worker, size_t stage, StageExchange& exchange)
    : worker_(worker),
      stage_(stage),
      exchange_(exchange),
      weight_gradients_(fuse_activations(worker.worker().weight_gradients)),
      in_flight_(schedule_depth(worker.worker().schedule, worker.program().micro_batches)) {}

std::vector<std::pair<std::string, TensorLayout>> PipelineStage::wanted_layouts(int64_t batch) const {
  const Graph& gradient = worker_.gradient_graph();
  const int64_t parts = worker_.program().micro_batches;
  const int64_t samples = (batch + parts - 1) / parts;
  std::map<std::string, TensorLayout> wanted;
  // The forward kernels decide; the graph of the weight gradients has no kernels that read its parameters.
  for (const Graph* graph : {&gradient, &weight_gradients_}) {
    if (graph->nodes().empty()) continue;
    const Graph sized = graph->with_batch(graph == &gradient ? samples : batch);
    const auto executable = worker_.device().compile(sized, {.metrics = worker_.program().metrics});
    for (const auto& [name, layout] : executable->parameter_layouts()) wanted.emplace(name, layout);
  }
  return {wanted.begin(), wanted.end()};
}

double PipelineStage::sum_of_squares() {
  const auto& entries = worker_.home().arena.entries;
  const auto& owned = worker_.gradients().owned_ranges();
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool mine = std::any_of(owned.begin(), owned.end(), [&](const auto& range) {
      return range.first <= entries[i].offset && entries[i].offset < range.second;
    });
    if (!mine) continue;
    exchange_.squares[i] = worker_.updater().sum_of_squares(
        worker_.update_bindings(), entries[i].offset, entries[i].offset + align_up(entries[i].layout.bytes));
  }
  worker_.did(StepPhase::update, "gradient norm");
  worker_.group()->barrier();
  worker_.did(StepPhase::exchange, "sum of norms");
  double sum = 0;
  for (const double square : exchange_.squares) sum += square;
  return sum;
}

void PipelineStage::in_order(const std::function<void()>& work) {
  for (size_t s = 0; s < stages(); ++s) {
    if (s == stage_) work();
    worker_.group()->barrier();
  }
}

PipelineStage::MicroBatchGraph& PipelineStage::micro_batch_graph(int64_t size) {
  MicroBatchGraph& graph = graphs_[size];
  if (graph.executable) return graph;
  graph.executable = worker_.device().compile(worker_.gradient_graph().with_batch(size),
                                              {.accumulation = Accumulation::add,
                                               .parameters = &worker_.home().arena,
                                               .metrics = worker_.program().metrics,
                                               .prepare_parameters = true,
                                               .delivered = &exchange_.layouts});
  graph.prepared = Buffer(graph.executable->prepared_bytes());
  for (const auto& [name, layout] : graph.executable->delivered_layouts())
    exchange_.layouts.emplace(name, layout);
  return graph;
}

void PipelineStage::make_plan(Plan& plan, int64_t batch) {
  const auto count = static_cast<size_t>(worker_.program().micro_batches);
  int64_t first = 0;
  for (const int64_t size : split_by_shares(batch, std::vector<double>(count, 1.0))) {
    if (size > 0) plan.micro_batches.push_back({first, size, &micro_batch_graph(size), nullptr});
    first += size;
  }
  if (weight_gradients_.nodes().empty()) return;
  plan.weight_gradients =
      worker_.device().compile(weight_gradients_.with_batch(batch), {.parameters = &worker_.home().arena,
                                                                     .metrics = worker_.program().metrics,
                                                                     .delivered = &exchange_.layouts});
}

void PipelineStage::bind(Plan& plan) {
  const auto round = [](size_t bytes) { return align_up(bytes); };
  size_t micro_batch_bytes = micro_batch_bytes_;
  for (const MicroBatch& micro_batch : plan.micro_batches)
    micro_batch_bytes = std::max(micro_batch_bytes, round(micro_batch.graph->executable->activation_bytes()));
  size_t bytes = std::max(memory_.size(), micro_batch_bytes * in_flight_);
  if (plan.weight_gradients) bytes = std::max(bytes, plan.weight_gradients->activation_bytes());
  if (micro_batch_bytes > micro_batch_bytes_ || bytes > memory_.size()) {
    for (auto& [size, other] : plans_) other.generation = 0;  // they are bound to the smaller memory
    micro_batch_bytes_ = micro_batch_bytes;
    memory_ = Buffer(0);
    memory_ = Buffer(bytes);
  }
  for (size_t i = 0; i < plan.micro_batches.size(); ++i) {
    MicroBatch& micro_batch = plan.micro_batches[i];
    const auto addresses = exchange_.addresses(micro_batch.first);
    const std::span<std::byte> activations{memory_.data() + i % in_flight_ * micro_batch_bytes_,
                                           micro_batch_bytes_};
    Bindings of_micro_batch = worker_.bindings();
    of_micro_batch.activations = activations;
    of_micro_batch.prepared = micro_batch.graph->prepared.data();
    of_micro_batch.delivered = &addresses;
    micro_batch.context = micro_batch.graph->executable->bind(worker_.home().arena, of_micro_batch);
  }
  if (plan.weight_gradients) {
    const auto addresses = exchange_.addresses(0);
    Bindings of_batch = worker_.bindings();
    of_batch.activations = {memory_.data(), memory_.size()};
    of_batch.delivered = &addresses;
    plan.weight_gradients_context = plan.weight_gradients->bind(worker_.home().arena, of_batch);
  }
  plan.generation = exchange_.generation();
}

PipelineStage::Plan& PipelineStage::plan_for(int64_t batch) {
  if (std::exchange(resets_, exchange_.resets()) != exchange_.resets()) plans_.clear();
  const bool known = plans_.contains(batch);  // the same in all stages, because all have had the same batches
  Plan& plan = plans_[batch];
  if (!known) {
    in_order([&] { make_plan(plan, batch); });
    if (stage_ == 0) exchange_.reserve(batch);
    worker_.group()->barrier();
  }
  if (plan.generation != exchange_.generation()) bind(plan);
  return plan;
}

void PipelineStage::clear_sums() {
  // Gradients computed per micro-batch are added up; those computed at the end are overwritten.
  for (const std::string& name : trained_by(worker_.gradient_graph())) {
    const ArenaLayout::Entry& entry = worker_.home().arena.find(name);
    std::memset(worker_.gradients().arena() + entry.offset, 0, align_up(entry.layout.bytes));
  }
}

void PipelineStage::set_micro_batch_inputs() {
  const BatchView& batch = worker_.request().part;
  const uint32_t epoch = worker_.request().inputs.epoch;
  for (const MicroBatch& micro_batch : plan_->micro_batches)
    worker_.set_inputs(*micro_batch.context,
                       slice(batch, micro_batch.first, micro_batch.size, exchange_.inputs), epoch);
  if (plan_->weight_gradients_context) worker_.set_inputs(*plan_->weight_gradients_context, batch, epoch);
}

void PipelineStage::begin_step() {
  plan_ = &plan_for(worker_.request().part.size);
  worker_.did(StepPhase::other, "finds or compiles kernels");
  set_micro_batch_inputs();
  worker_.did(StepPhase::copy, "takes the batch");
  clear_sums();
  worker_.did(StepPhase::backward, "clears gradients");
  ++steps_;
  begin_ = exchange_.forward[stage_].count();
}

void PipelineStage::wait_for(const Progress& progress, size_t micro_batch) {
  const int64_t count = begin_ + static_cast<int64_t>(micro_batch) + 1;
  if (progress.count() >= count) return;
  const auto start = std::chrono::steady_clock::now();
  if (!progress.wait_for(count)) throw run_error("another stage failed; stage {} stopped with it", stage_);
  const auto end = std::chrono::steady_clock::now();
  worker_.step().compute_seconds -= std::chrono::duration<double>(end - start).count();
  if (Timeline* timeline = worker_.timeline()) timeline->did(StepPhase::wait, "waits for its neighbour", end);
}

void PipelineStage::run_micro_batch(MicroBatch& micro_batch, Phase phase, StepPhase direction) {
  int64_t& prepared = phase == Phase::before_pause ? micro_batch.graph->prepared_forward
                                                   : micro_batch.graph->prepared_backward;
  if (prepared != steps_) micro_batch.context->prepare(phase);
  prepared = steps_;
  worker_.did(direction, "brings weights into layout");
  worker_.run(*micro_batch.context, phase, direction);
}

void PipelineStage::forward(size_t micro_batch) {
  if (micro_batch >= plan_->micro_batches.size()) return;  // no samples
  if (stage_ > 0) wait_for(exchange_.forward[stage_ - 1], micro_batch);
  run_micro_batch(plan_->micro_batches[micro_batch], Phase::before_pause, StepPhase::forward);
  exchange_.forward[stage_].advance();
}

void PipelineStage::backward(size_t micro_batch) {
  if (micro_batch >= plan_->micro_batches.size()) return;
  if (stage_ + 1 < stages()) wait_for(exchange_.backward[stage_ + 1], micro_batch);
  run_micro_batch(plan_->micro_batches[micro_batch], Phase::after_pause, StepPhase::backward);
  exchange_.backward[stage_].advance();
}

void PipelineStage::weight_gradients() {
  if (plan_->weight_gradients_context)
    worker_.run(*plan_->weight_gradients_context, Phase::whole, StepPhase::backward);
}

size_t PipelineStage::intervals(size_t of_graph) const {
  const auto micro_batches = static_cast<size_t>(worker_.program().micro_batches);
  return micro_batches * (of_graph + 4) + 2 * weight_gradients_.nodes().size();
}

size_t PipelineStage::activation_bytes() const {
  size_t bytes = memory_.size() + (stage_ == 0 ? exchange_.bytes() : 0);
  for (const auto& [size, graph] : graphs_) bytes += graph.prepared.size();
  return bytes;
}

}  // namespace telar
