#include "telar/runtime/replica.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "telar/core/error.h"
#include "telar/graph/fuse_activations.h"
#include "telar/graph/ops/communication.h"

namespace telar {

namespace {

constexpr const char* kInputX = "x";
constexpr const char* kInputLabel = "label";
constexpr const char* kInputSample = "sample";
constexpr const char* kInputRandom = "random";

}  // namespace

Replica::Replica(const Program& program, const WorkerProgram& worker, std::unique_ptr<Device> device,
                 Group* group, uint64_t seed)
    : program_(program),
      gradient_(fuse_activations(worker.gradient)),
      device_(std::move(device)),
      group_(group),
      metrics_(program.metrics.size()),
      random_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 0, 0},
      evaluation_(fuse_activations(program.evaluation)),
      prediction_(fuse_activations(program.prediction)),
      schedule_(worker.schedule) {}

const Graph& Replica::graph_of(Purpose purpose) const {
  switch (purpose) {
    case Purpose::gradient: return gradient_;
    case Purpose::evaluation: return evaluation_;
    case Purpose::prediction: return prediction_;
  }
  return gradient_;
}

std::vector<std::pair<std::string, TensorLayout>> Replica::wanted_layouts(int64_t batch) {
  const auto executable = device_->compile(gradient_.with_batch(batch), {.metrics = program_.metrics});
  return executable->parameter_layouts();
}

void Replica::attach(SharedState& state) {
  state_ = &state;
  if (state.gradients.size() == 0) gradients_ = Buffer(state.arena.bytes);
  owned_ = find_owned_ranges();
  updater_ = device_->compile_update(program_.update, state.arena);
}

Context& Replica::context_for(Purpose purpose, int64_t batch) {
  Compiled& compiled = compiled_[{purpose, batch}];
  if (compiled.context) return *compiled.context;
  compiled.executable = device_->compile(
      graph_of(purpose).with_batch(batch),
      {.accumulation = Accumulation::overwrite, .parameters = &state_->arena, .metrics = program_.metrics});
  if (compiled.executable->activation_bytes() > activations_.size()) {
    for (auto& other : compiled_) other.second.context.reset();  // they used the smaller memory
    activations_ = Buffer(0);
    activations_ = Buffer(compiled.executable->activation_bytes());
  }
  for (auto& other : compiled_) {
    if (other.second.context || !other.second.executable) continue;
    other.second.context = other.second.executable->bind(
        state_->arena,
        {state_->parameters.data(), gradient_memory(), metrics_, {activations_.data(), activations_.size()}});
  }
  return *compiled.context;
}

void Replica::set_inputs(Context& context, const BatchView& part, uint32_t epoch) {
  random_[2] = epoch;
  context.set_input(kInputX, part.x);
  context.set_input(kInputLabel, part.label);
  context.set_input(kInputSample, part.sample);
  context.set_input(kInputRandom, random_.data());
}

void Replica::communicate(const Node& node, std::span<float> memory) {
  if (group_ == nullptr) return;
  if (node.op->name() == "reduce_bucket") {
    const auto [begin, end] = state_->buckets[static_cast<size_t>(node.attributes.integer("bucket"))];
    group_->start_reduce_scatter(
        gradients_.as<float>().subspan(begin / sizeof(float), (end - begin) / sizeof(float)));
    return;
  }
  // The device has put its row first.
  const auto rank = static_cast<size_t>(group_->rank());
  const size_t length = memory.size() / static_cast<size_t>(group_->size());
  if (rank > 0)
    std::copy_n(memory.begin(), length, memory.begin() + static_cast<std::ptrdiff_t>(rank * length));
  group_->all_gather(memory);
}

void Replica::poll() {
  if (group_ != nullptr) group_->poll();
}

void Replica::communicate_without_samples() {
  // A part without samples contributes zeros and takes part in every exchange.
  std::memset(gradients_.data(), 0, gradients_.size());
  for (const Node& node : gradient_.nodes()) {
    if (!is_communication(*node.op)) continue;
    std::vector<float> zeros;
    if (!node.outputs.empty()) {
      zeros.resize(static_cast<size_t>(gradient_.value(node.outputs[0]).type.shape.elements()));
    }
    communicate(node, zeros);
  }
}

void Replica::compute_gradient() {
  if (part_.size == 0) {
    communicate_without_samples();
    return;
  }
  Context& context = context_for(Purpose::gradient, part_.size);
  set_inputs(context, part_, inputs_.epoch);
  context.run(*this);
}

void Replica::begin_step(const BatchView& part, const StepInputs& inputs) {
  part_ = part;
  inputs_ = inputs;
}

void Replica::compute(Action action) {
  if (action != Action::compute_gradient) {
    throw run_error("a replica cannot do '{}', which is for a stage of a pipeline", name_of(action));
  }
  compute_gradient();
}

std::vector<std::pair<size_t, size_t>> Replica::find_owned_ranges() const {
  std::vector<std::pair<size_t, size_t>> ranges;
  for (const auto& [begin, end] : state_->buckets) {
    const size_t count = (end - begin) / sizeof(float);
    const auto [from, to] = group_ == nullptr ? std::pair<size_t, size_t>{0, count} : group_->shard(count);
    if (from < to) ranges.emplace_back(begin + from * sizeof(float), begin + to * sizeof(float));
  }
  return ranges;
}

std::byte* Replica::gradient_memory() const {
  const Buffer& memory = gradients_.size() > 0 ? gradients_ : state_->gradients;
  return const_cast<std::byte*>(memory.data());
}

double Replica::exchange_norm() {
  double sum = 0;
  for (const auto& [begin, end] : owned_) sum += updater_->sum_of_squares(update_bindings(), begin, end);
  return group_ == nullptr ? sum : group_->sum_over_shards(sum);
}

UpdateBindings Replica::update_bindings() const {
  UpdateBindings bindings{state_->parameters.data(), gradient_memory(), {}};
  for (Buffer& buffer : state_->states) bindings.states.push_back(buffer.data());
  return bindings;
}

bool Replica::update(const StepInputs& inputs, int64_t global_samples, double sum_of_squares) {
  const UpdateBindings bindings = update_bindings();
  const UpdateScalars scalars{inputs.learning_rate, static_cast<float>(global_samples),
                              static_cast<float>(inputs.step)};
  bool finite = true;
  for (const auto& [begin, end] : owned_)
    finite = updater_->apply(bindings, scalars, sum_of_squares, begin, end) && finite;
  return finite;
}

std::vector<double> Replica::take_metrics() {
  std::vector<double> sums(metrics_.begin(), metrics_.end());
  std::fill(metrics_.begin(), metrics_.end(), 0.0F);
  return sums;
}

Replica::Step Replica::train(const BatchView& part, const StepInputs& inputs, int64_t global_samples) {
  Step step;
  double sum_of_squares = 0;
  bool summed = false;
  std::fill(metrics_.begin(), metrics_.end(), 0.0F);
  begin_step(part, inputs);
  for (const Action action : schedule_) {
    switch (action) {
      case Action::compute_gradient:
      case Action::forward:
      case Action::backward:
      case Action::weight_gradients: {
        const auto start = std::chrono::steady_clock::now();
        compute(action);
        step.computed = std::chrono::steady_clock::now();
        step.compute_seconds += std::chrono::duration<double>(step.computed - start).count();
        break;
      }
      case Action::finish_exchange: group_->finish(); break;
      case Action::exchange_metrics: group_->all_reduce(metrics_); break;
      case Action::exchange_norm:
        if (!updater_->clips()) break;
        sum_of_squares = exchange_norm();
        summed = true;
        break;
      case Action::update_shard:
        // Every member sees the same summed loss, so all of them update or none does.
        step.result.finite = std::isfinite(metrics_[0]);
        if (!step.result.finite) break;
        if (updater_->clips() && !summed) sum_of_squares = exchange_norm();
        step.result.finite = update(inputs, global_samples, sum_of_squares);
        break;
      case Action::wait_for_all: group_->barrier(); break;
    }
  }
  step.compute_seconds -= std::exchange(waited_, 0.0);
  step.result.metrics = take_metrics();
  return step;
}

std::vector<double> Replica::evaluate(const BatchView& part) {
  std::fill(metrics_.begin(), metrics_.end(), 0.0F);
  if (part.size > 0) {
    Context& context = context_for(Purpose::evaluation, part.size);
    set_inputs(context, part, 0);
    context.run(*this);
  }
  if (group_ != nullptr) group_->all_reduce(metrics_);
  return take_metrics();
}

std::vector<float> Replica::predict(const BatchView& part) {
  if (part.size == 0) return {};
  Context& context = context_for(Purpose::prediction, part.size);
  set_inputs(context, part, 0);
  context.run(*this);
  return context.output("prediction");
}

std::string Replica::find_non_finite(const BatchView& part, const StepInputs& inputs) {
  if (part.size == 0) {
    communicate_without_samples();
  } else {
    Context& context = context_for(Purpose::gradient, part.size);
    set_inputs(context, part, inputs.epoch);
    if (auto found = context.find_non_finite(*this)) first_non_finite_ = *found;
  }
  if (group_ != nullptr) group_->finish();
  return std::exchange(first_non_finite_, {});
}

std::vector<OperationTime> Replica::profile(const BatchView& part, const StepInputs& inputs) {
  Context& context = context_for(Purpose::gradient, part.size);
  set_inputs(context, part, inputs.epoch);
  auto times = context.profile(*this);
  if (group_ != nullptr) group_->finish();
  return times;
}

}  // namespace telar
