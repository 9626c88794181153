#include "telar/runtime/replica.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "telar/core/error.h"
#include "telar/graph/fuse_activations.h"

namespace telar {

namespace {

constexpr const char* kInputX = "x";
constexpr const char* kInputLabel = "label";
constexpr const char* kInputSample = "sample";
constexpr const char* kInputRandom = "random";

using Clock = std::chrono::steady_clock;

// So that 64-bit sample ids are the low and the high word that the graph's input expects.
static_assert(std::endian::native == std::endian::little);

}  // namespace

Replica::Replica(const Program& program, const WorkerProgram& worker, std::unique_ptr<Device> device,
                 Group* group, const StoreAccess* store, uint64_t seed, bool tf32, Warn warn)
    : program_(program),
      gradient_(fuse_activations(worker.gradient)),
      device_(std::move(device)),
      group_(group),
      random_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 0, 0},
      evaluation_(fuse_activations(program.evaluation)),
      prediction_(fuse_activations(program.prediction)),
      schedule_(worker.schedule),
      store_(store),
      tf32_(tf32),
      warn_(std::move(warn)) {}

std::vector<std::pair<std::string, TensorLayout>> Replica::wanted_layouts(int64_t batch) {
  const auto executable =
      device_->compile(gradient_.with_batch(batch), {.metrics = program_.metrics, .tf32 = tf32_});
  return executable->parameter_layouts();
}

void Replica::attach(SharedState& state) {
  home_ = &state.memory_of(*device_);
  gradients_.emplace(*device_, group_, state);
  metrics_.emplace(*device_, program_.metrics.size());
  updater_ = device_->compile_update(program_.update, home_->arena);
  graphs_.emplace(*device_, *home_, bindings(), CompileOptions{.metrics = program_.metrics, .tf32 = tf32_},
                  std::map<Purpose, const Graph*>{{Purpose::gradient, &gradient_},
                                                  {Purpose::evaluation, &evaluation_},
                                                  {Purpose::prediction, &prediction_}});
  if (store_ != nullptr) pending_push_.emplace(program_, schedule_, *store_, *device_, *home_);
}

Bindings Replica::bindings() const {
  Bindings bindings;
  bindings.parameters = home_->parameters->data();
  bindings.gradients = gradients_->arena();
  bindings.metrics = metrics_->on_device();
  return bindings;
}

void Replica::set_inputs(Context& context, const BatchView& part, uint32_t epoch) {
  if (part.again) return;
  random_[2] = epoch;
  context.set_input(kInputX, part.x);
  context.set_input(kInputLabel, part.label);
  context.set_input(kInputSample, part.sample);
  context.set_input(kInputRandom, random_.data());
}

template <typename Body>
void Replica::communicating(const char* what, const Body& body) {
  const auto start = Clock::now();
  const size_t started = gradients_->started();
  body();
  const auto end = Clock::now();
  communication_seconds_ += std::chrono::duration<double>(end - start).count();
  if (timeline_ == nullptr) return;
  timeline_->did(StepPhase::exchange, what != nullptr ? what : "sums", end);
  if (what != nullptr) timeline_->called_group(what, start, end);
  if (gradients_->started() > started) timeline_->sum_began(start);
  timeline_->sums_complete(gradients_->complete(), end);
}

void Replica::communicate(const Node& node, std::span<float> memory) {
  if (group_ == nullptr) return;
  if (node.op->effect() == Effect::sums_gradients) {
    const auto bucket = static_cast<size_t>(node.attributes.integer("bucket"));
    communicating(nullptr, [&] { gradients_->start(bucket); });
  } else {
    communicating("all-gather", [&] { gather(memory); });
  }
}

void Replica::warn(const std::string& text) {
  if (const Warn once = std::exchange(warn_, {})) once(text);
}

void Replica::gather(std::span<float> rows) {
  const auto rank = static_cast<size_t>(group_->rank());
  const size_t length = rows.size() / static_cast<size_t>(group_->size());
  if (rank > 0) std::copy_n(rows.begin(), length, rows.begin() + static_cast<std::ptrdiff_t>(rank * length));
  group_->all_gather(rows);
}

void Replica::poll() {
  if (gradients_->under_way()) communicating(nullptr, [this] { gradients_->poll(); });
}

void Replica::finish() {
  if (group_ == nullptr) return;
  communicating(nullptr, [this] { gradients_->finish(); });
  if (timeline_ != nullptr) timeline_->sums_finished();
  gradients_->count_anew();
}

void Replica::communicate_without_samples() {
  // A part without samples contributes zeros and joins every exchange.
  device_->zero(gradients_->arena(), home_->arena.bytes);
  did(StepPhase::backward, "clears gradients");
  for (const Node& node : gradient_.nodes()) {
    if (!node.op->communicates()) continue;
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
  Context& context = graphs_->context(Purpose::gradient, part_.size);
  did(StepPhase::other, "finds or compiles kernels");
  set_inputs(context, part_, inputs_.epoch);
  did(StepPhase::copy, "takes the batch");
  context.run(*this);
}

void Replica::begin_step(const BatchView& part, const StepInputs& inputs) {
  part_ = part;
  inputs_ = inputs;
}

void Replica::compute(Action action) {
  if (action != Action::compute_gradient) {
    throw run_error("a replica cannot perform '{}', which is an action of a pipeline stage", name_of(action));
  }
  compute_gradient();
}

double Replica::exchange_norm() {
  double sum = 0;
  for (const auto& [begin, end] : owned_ranges())
    sum += updater_->sum_of_squares(update_bindings(), begin, end);
  did(StepPhase::update, "gradient norm");
  if (group_ != nullptr) communicating("sum of norms", [&] { sum = group_->sum_over_shards(sum); });
  return sum;
}

UpdateBindings Replica::update_bindings() const {
  UpdateBindings bindings{home_->parameters->data(), gradients(), {}};
  for (const auto& state : home_->states) bindings.states.push_back(state->data());
  return bindings;
}

bool Replica::update(const UpdateBindings& bindings, const StepInputs& inputs, int64_t global_samples,
                     double sum_of_squares) {
  const UpdateScalars scalars{inputs.learning_rate, static_cast<float>(global_samples),
                              static_cast<float>(inputs.step)};
  bool finite = true;
  for (const auto& [begin, end] : owned_ranges())
    finite = updater_->apply(bindings, scalars, sum_of_squares, begin, end) && finite;
  return finite;
}

void Replica::wait_until_computed() {
  if (device_->in_host_memory()) return;
  const auto copied = metrics_->start_copy();
  while (!copied->done()) {
    poll();
    std::this_thread::yield();  // to replicas on CPUs
  }
  metrics_->arrived();
}

std::vector<double> Replica::take_metrics() {
  const std::span<const float> sums = metrics_->values();
  return {sums.begin(), sums.end()};
}

StepResult Replica::flush(const StepInputs& inputs) {
  StepResult result;
  if (!pending_push_ || pending_push_->empty()) return result;
  for (const auto& [action, every] : schedule_) {
    if (action == Action::push_gradient || action == Action::push_difference)
      pending_push_->push(action, true, gradients(), inputs, result);
  }
  return result;
}

bool Replica::can_run_ahead() const {
  return (group_ == nullptr || group_->sums_on_device()) && store_ == nullptr && timeline_ == nullptr &&
         !device_->in_host_memory() && !updater_->clips();
}

void Replica::begin(const BatchView& part, const StepInputs& inputs, int64_t global_samples) {
  if (!ahead_) ahead_.emplace(*device_, *metrics_);
  metrics_->clear();
  begin_step(part, inputs);
  compute(Action::compute_gradient);
  if (group_ != nullptr) {
    group_->start_reduce_scatter({metrics_->on_device(), metrics_->count()});
    group_->finish();
    gradients_->count_anew();
  }
  UpdateBindings bindings = update_bindings();
  bindings.loss = metrics_->on_device();
  bindings.non_finite = metrics_->non_finite();
  update(bindings, inputs, global_samples, 0);
  ahead_->begun();
}

bool Replica::result_is_due(bool early) const {
  return ahead_ && (ahead_->full() || (early && ahead_->oldest_is_done()));
}

StepResult Replica::finished() {
  if (!ahead_) throw run_error("there is no result, because no step was begun");
  return ahead_->finished();
}

Replica::Step Replica::train(const BatchView& part, const StepInputs& inputs, int64_t global_samples) {
  Step step;
  double sum_of_squares = 0;
  bool summed = false;
  bool pulled = false;
  ++steps_;
  const auto due = [this](const ScheduledAction& scheduled) { return steps_ % scheduled.every == 0; };
  const bool pull_is_due = std::any_of(
      schedule_.begin(), schedule_.end(),
      [&](const ScheduledAction& scheduled) { return scheduled.action == Action::pull && due(scheduled); });
  metrics_->clear();
  did(StepPhase::other, "begins");
  begin_step(part, inputs);
  for (const ScheduledAction& scheduled : schedule_) {
    if (!due(scheduled)) continue;
    switch (scheduled.action) {
      case Action::compute_gradient:
      case Action::forward:
      case Action::backward:
      case Action::weight_gradients: {
        const auto start = Clock::now();
        compute(scheduled.action);
        wait_until_computed();
        step.computed = Clock::now();
        step.compute_seconds += std::chrono::duration<double>(step.computed - start).count();
        step.within_gradient_seconds += std::exchange(communication_seconds_, 0.0);
        if (store_ == nullptr) break;
        step.result.finite = std::isfinite(metrics_->values()[0]);
        pending_push_->add(gradients(), part.size);
        step.result.fate = StepResult::Fate::pending;
        break;
      }
      case Action::finish_exchange: finish(); break;
      case Action::exchange_metrics:
        communicating("sum of metrics", [this] { group_->all_reduce(metrics_->values()); });
        break;
      case Action::exchange_norm:
        if (!updater_->clips()) break;
        sum_of_squares = exchange_norm();
        summed = true;
        break;
      case Action::update_shard:
        // Every member sees the same summed loss, so either all of them update or none.
        step.result.finite = std::isfinite(metrics_->values()[0]);
        if (!step.result.finite) break;
        if (updater_->clips() && !summed) sum_of_squares = exchange_norm();
        step.result.finite = update(update_bindings(), inputs, global_samples, sum_of_squares);
        did(StepPhase::update, "update");
        break;
      case Action::wait_for_all: communicating("barrier", [this] { gradients_->share_parameters(); }); break;
      case Action::push_gradient:
      case Action::push_difference:
        if (!step.result.finite) break;
        pending_push_->push(scheduled.action, pull_is_due, gradients(), inputs, step.result);
        pulled = pull_is_due;
        break;
      case Action::pull:
        if (!pulled) pull();
        break;
    }
  }
  step.compute_seconds -= std::exchange(waited_, 0.0);
  step.after_gradient_seconds = std::exchange(communication_seconds_, 0.0);
  step.result.metrics = take_metrics();
  did(StepPhase::other, "collects metrics");
  return step;
}

std::vector<double> Replica::evaluate(const BatchView& part) {
  metrics_->clear();
  if (part.size > 0) {
    Context& context = graphs_->context(Purpose::evaluation, part.size);
    set_inputs(context, part, 0);
    context.run(*this);
  }
  if (group_ != nullptr) group_->all_reduce(metrics_->values());
  return take_metrics();
}

std::vector<float> Replica::predict(const BatchView& part) {
  if (part.size == 0) return {};
  Context& context = graphs_->context(Purpose::prediction, part.size);
  set_inputs(context, part, 0);
  context.run(*this);
  return context.output("prediction");
}

std::string Replica::find_non_finite(const BatchView& part, const StepInputs& inputs) {
  if (part.size == 0) {
    communicate_without_samples();
  } else {
    Context& context = graphs_->context(Purpose::gradient, part.size);
    set_inputs(context, part, inputs.epoch);
    if (auto found = context.find_non_finite(*this)) first_non_finite_ = *found;
  }
  finish();
  return std::exchange(first_non_finite_, {});
}

std::vector<OperationTime> Replica::profile(const BatchView& part, const StepInputs& inputs) {
  return time_operations([&] {
    Context& context = graphs_->context(Purpose::gradient, part.size);
    set_inputs(context, part, inputs.epoch);
    did(StepPhase::other, "prepares");
    context.run(*this);
    finish();
  });
}

void Replica::record(int64_t steps) {
  timeline_ = std::make_unique<Timeline>(steps, static_cast<size_t>(steps) * intervals());
}

std::vector<OperationTime> Replica::time_operations(const std::function<void()>& body) {
  auto own = std::make_unique<Timeline>(1, intervals());
  timeline_.swap(own);
  timeline_->begin(Clock::now());
  body();
  timeline_.swap(own);
  return own->operations();
}

}  // namespace telar
