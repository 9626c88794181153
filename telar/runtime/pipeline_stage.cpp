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

size_t schedule_depth(const std::vector<ScheduledAction>& schedule) {
  int64_t depth = 0;
  int64_t now = 0;
  for (const ScheduledAction& scheduled : schedule) {
    if (scheduled.action == Action::forward) depth = std::max(depth, ++now);
    if (scheduled.action == Action::backward) --now;
  }
  return static_cast<size_t>(std::max<int64_t>(1, depth));
}

/// Sums the times of equal operations over several micro-batches.
std::vector<OperationTime> summed(const std::vector<OperationTime>& times) {
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

}  // namespace

PipelineStage::PipelineStage(const Program& program, size_t stage, std::unique_ptr<Device> device,
                             Group& group, StageExchange& exchange, uint64_t seed)
    : Replica(program, program.workers[stage], std::move(device), &group, nullptr, seed),
      stage_(stage),
      exchange_(exchange),
      weight_gradients_(fuse_activations(program.workers[stage].weight_gradients)),
      in_flight_(schedule_depth(program.workers[stage].schedule)) {}

std::vector<std::pair<std::string, TensorLayout>> PipelineStage::wanted_layouts(int64_t batch) {
  const int64_t samples = (batch + program_.micro_batches - 1) / program_.micro_batches;
  std::map<std::string, TensorLayout> wanted;
  // The forward kernels decide; the graph of the weight gradients has no kernels that read its parameters.
  for (const Graph* graph : {&gradient_, &weight_gradients_}) {
    if (graph->nodes().empty()) continue;
    const Graph sized = graph->with_batch(graph == &gradient_ ? samples : batch);
    const auto executable = device_->compile(sized, {.metrics = program_.metrics});
    for (const auto& [name, layout] : executable->parameter_layouts()) wanted.emplace(name, layout);
  }
  return {wanted.begin(), wanted.end()};
}

double PipelineStage::exchange_norm() {
  const auto& entries = home_->arena.entries;
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool mine = std::any_of(owned_ranges().begin(), owned_ranges().end(), [&](const auto& range) {
      return range.first <= entries[i].offset && entries[i].offset < range.second;
    });
    if (!mine) continue;
    exchange_.squares[i] = updater_->sum_of_squares(update_bindings(), entries[i].offset,
                                                    entries[i].offset + align_up(entries[i].layout.bytes));
  }
  did(StepPhase::update, "gradient norm");
  group_->barrier();
  did(StepPhase::exchange, "sum of norms");
  double sum = 0;
  for (const double square : exchange_.squares) sum += square;
  return sum;
}

void PipelineStage::in_order(const std::function<void()>& work) {
  for (size_t s = 0; s < stages(); ++s) {
    if (s == stage_) work();
    group_->barrier();
  }
}

PipelineStage::MicroBatchGraph& PipelineStage::micro_batch_graph(int64_t size) {
  MicroBatchGraph& graph = graphs_[size];
  if (graph.executable) return graph;
  graph.executable = device_->compile(gradient_.with_batch(size), {.accumulation = Accumulation::add,
                                                                   .parameters = &home_->arena,
                                                                   .metrics = program_.metrics,
                                                                   .prepare_parameters = true,
                                                                   .delivered = &exchange_.layouts});
  graph.prepared = Buffer(graph.executable->prepared_bytes());
  for (const auto& [name, layout] : graph.executable->delivered_layouts())
    exchange_.layouts.emplace(name, layout);
  return graph;
}

void PipelineStage::make_plan(Plan& plan, int64_t batch) {
  const auto count = static_cast<size_t>(program_.micro_batches);
  int64_t first = 0;
  for (const int64_t size : split_by_shares(batch, std::vector<double>(count, 1.0))) {
    if (size > 0) plan.micro_batches.push_back({first, size, &micro_batch_graph(size), nullptr});
    first += size;
  }
  if (weight_gradients_.nodes().empty()) return;
  plan.weight_gradients = device_->compile(
      weight_gradients_.with_batch(batch),
      {.parameters = &home_->arena, .metrics = program_.metrics, .delivered = &exchange_.layouts});
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
    Bindings of_micro_batch = bindings();
    of_micro_batch.activations = activations;
    of_micro_batch.prepared = micro_batch.graph->prepared.data();
    of_micro_batch.delivered = &addresses;
    micro_batch.context = micro_batch.graph->executable->bind(home_->arena, of_micro_batch);
  }
  if (plan.weight_gradients) {
    const auto addresses = exchange_.addresses(0);
    Bindings of_batch = bindings();
    of_batch.activations = {memory_.data(), memory_.size()};
    of_batch.delivered = &addresses;
    plan.weight_gradients_context = plan.weight_gradients->bind(home_->arena, of_batch);
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
    group_->barrier();
  }
  if (plan.generation != exchange_.generation()) bind(plan);
  return plan;
}

void PipelineStage::clear_sums() {
  // Gradients computed per micro-batch are added up; those computed at the end are overwritten.
  for (const std::string& name : trained_by(gradient_)) {
    const ArenaLayout::Entry& entry = home_->arena.find(name);
    std::memset(gradients_->arena() + entry.offset, 0, align_up(entry.layout.bytes));
  }
}

void PipelineStage::set_micro_batch_inputs() {
  random_[2] = inputs_.epoch;
  const auto offset = [&](const void* base, size_t item, int64_t first) -> const void* {
    return base == nullptr ? nullptr
                           : static_cast<const std::byte*>(base) + item * static_cast<size_t>(first);
  };
  for (const MicroBatch& micro_batch : plan_->micro_batches) {
    micro_batch.context->set_input("x", offset(part_.x, exchange_.x_bytes, micro_batch.first));
    micro_batch.context->set_input("label", offset(part_.label, exchange_.label_bytes, micro_batch.first));
    micro_batch.context->set_input("sample", part_.sample + micro_batch.first);
    micro_batch.context->set_input("random", random_.data());
  }
  if (plan_->weight_gradients_context) {
    plan_->weight_gradients_context->set_input("x", part_.x);
    plan_->weight_gradients_context->set_input("label", part_.label);
    plan_->weight_gradients_context->set_input("sample", part_.sample);
  }
}

void PipelineStage::begin_step(const BatchView& batch, const StepInputs& inputs) {
  Replica::begin_step(batch, inputs);
  plan_ = &plan_for(batch.size);
  did(StepPhase::other, "finds or compiles kernels");
  set_micro_batch_inputs();
  did(StepPhase::copy, "takes the batch");
  clear_sums();
  did(StepPhase::backward, "clears gradients");
  ++steps_;
  begin_ = exchange_.forward[stage_].count();
  next_forward_ = 0;
  next_backward_ = 0;
}

void PipelineStage::wait_for(const Progress& progress, int64_t count) {
  if (progress.count() >= count) return;
  const auto start = std::chrono::steady_clock::now();
  if (!progress.wait_for(count)) throw run_error("another stage failed; stage {} stopped with it", stage_);
  const auto end = std::chrono::steady_clock::now();
  waited_ += std::chrono::duration<double>(end - start).count();
  if (timeline_ != nullptr) timeline_->did(StepPhase::wait, "waits for its neighbour", end);
}

void PipelineStage::run_micro_batch(MicroBatch& micro_batch, Phase phase, const Run& run) {
  int64_t& prepared = phase == Phase::before_pause ? micro_batch.graph->prepared_forward
                                                   : micro_batch.graph->prepared_backward;
  if (prepared != steps_) micro_batch.context->prepare(phase);
  prepared = steps_;
  did(phase == Phase::before_pause ? StepPhase::forward : StepPhase::backward, "brings weights into layout");
  run(*micro_batch.context, phase);
}

void PipelineStage::act(Action action, const Run& run) {
  std::vector<MicroBatch>& micro_batches = plan_->micro_batches;
  if (action == Action::forward) {
    const size_t i = next_forward_++;
    if (i >= micro_batches.size()) return;  // no samples
    if (stage_ > 0) wait_for(exchange_.forward[stage_ - 1], begin_ + static_cast<int64_t>(i) + 1);
    run_micro_batch(micro_batches[i], Phase::before_pause, run);
    exchange_.forward[stage_].advance();
  } else if (action == Action::backward) {
    const size_t i = next_backward_++;
    if (i >= micro_batches.size()) return;
    if (stage_ + 1 < stages()) wait_for(exchange_.backward[stage_ + 1], begin_ + static_cast<int64_t>(i) + 1);
    run_micro_batch(micro_batches[i], Phase::after_pause, run);
    exchange_.backward[stage_].advance();
  } else if (action == Action::weight_gradients && plan_->weight_gradients_context) {
    run(*plan_->weight_gradients_context, Phase::whole);
  }
}

void PipelineStage::compute(Action action) {
  act(action, [this](Context& context, Phase phase) { context.run(*this, phase); });
}

void PipelineStage::run_all(const BatchView& batch, const StepInputs& inputs, const Run& run) {
  begin_step(batch, inputs);
  for (const ScheduledAction& scheduled : program_.workers[stage_].schedule) act(scheduled.action, run);
  waited_ = 0;
  metrics_->clear();
  group_->barrier();
}

std::string PipelineStage::find_non_finite(const BatchView& batch, const StepInputs& inputs) {
  auto& mine = exchange_.non_finite[stage_];
  mine = {};
  run_all(batch, inputs, [&](Context& context, Phase phase) {
    const auto place = context.find_non_finite(*this, phase);
    std::string& found = phase == Phase::before_pause ? mine.forward : mine.backward;
    if (place && found.empty()) found = *place;
  });
  // In the order of the step: forward through the stages, then back.
  std::string first;
  for (const auto& stage : exchange_.non_finite) first = first.empty() ? stage.forward : first;
  for (size_t s = stages(); s-- > 0;) first = first.empty() ? exchange_.non_finite[s].backward : first;
  group_->barrier();
  return first;
}

std::vector<OperationTime> PipelineStage::profile(const BatchView& batch, const StepInputs& inputs) {
  return summed(time_operations(
      [&] { run_all(batch, inputs, [&](Context& context, Phase phase) { context.run(*this, phase); }); }));
}

size_t PipelineStage::intervals() const {
  const size_t of_micro_batch = Replica::intervals() + 4;
  return static_cast<size_t>(program_.micro_batches) * of_micro_batch + 2 * weight_gradients_.nodes().size();
}

size_t PipelineStage::activation_bytes() const {
  size_t bytes = memory_.size() + Replica::activation_bytes() + (stage_ == 0 ? exchange_.bytes() : 0);
  for (const auto& [size, graph] : graphs_) bytes += graph.prepared.size();
  return bytes;
}

}  // namespace telar
