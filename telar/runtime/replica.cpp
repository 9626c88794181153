#include "telar/runtime/replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
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

using Clock = std::chrono::steady_clock;

}  // namespace

Replica::Replica(const Program& program, const WorkerProgram& worker, std::unique_ptr<Device> device,
                 Group* group, const StoreAccess* store, uint64_t seed, bool tf32)
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
      metrics_(program.metrics.size()) {}

const Graph& Replica::graph_of(Purpose purpose) const {
  switch (purpose) {
    case Purpose::gradient: return gradient_;
    case Purpose::evaluation: return evaluation_;
    case Purpose::prediction: return prediction_;
  }
  return gradient_;
}

std::vector<std::pair<std::string, TensorLayout>> Replica::wanted_layouts(int64_t batch) {
  const auto executable =
      device_->compile(gradient_.with_batch(batch), {.metrics = program_.metrics, .tf32 = tf32_});
  return executable->parameter_layouts();
}

void Replica::attach(SharedState& state) {
  state_ = &state;
  home_ = &state.memory_of(*device_);
  const size_t bytes = home_->arena.bytes;
  if (state.gradients.size() > 0) {
    gradients_ = state.gradients.data();
  } else {
    if (group_ != nullptr) exchanged_ = group_->allocate(bytes);
    const bool theirs = group_ != nullptr && (device_->in_host_memory() || group_->sums_on_device());
    if (!theirs) own_gradients_ = device_->allocate(bytes);
    gradients_ = own_gradients_ != nullptr ? own_gradients_->data() : exchanged_.data();
    if (!exchanged_.empty() && !theirs) pinned_exchange_ = device_->pin(exchanged_);
  }
  metrics_memory_ = device_->allocate((metrics_.size() + 1) * sizeof(float));
  pinned_metrics_ = device_->pin(std::as_writable_bytes(std::span(metrics_)));
  owned_ = find_owned_ranges();
  updater_ = device_->compile_update(program_.update, home_->arena);
  if (store_ == nullptr) return;
  exchange_.emplace(*program_.servers, store_->servers, program_.parameters, home_->arena, *device_);
  const bool accrues = std::any_of(schedule_.begin(), schedule_.end(), [](const ScheduledAction& scheduled) {
    return scheduled.action == Action::push_gradient && scheduled.every > 1;
  });
  if (accrues) accrued_ = device_->allocate(bytes);
}

Bindings Replica::bindings() const {
  Bindings bindings;
  bindings.parameters = home_->parameters->data();
  bindings.gradients = gradients_;
  bindings.metrics = reinterpret_cast<float*>(metrics_memory_->data());
  if (activations_ != nullptr) bindings.activations = {activations_->data(), activations_->size()};
  return bindings;
}

std::unique_ptr<Memory> Replica::allocate_activations(int64_t batch, size_t bytes) const {
  const std::optional<size_t> free = device_->free_memory();
  if (!free || bytes <= *free) return device_->allocate(bytes);
  constexpr double kMegabyte = 1 << 20;
  // Activations grow with the batch; some of the memory is for what is not counted here.
  const auto fits = static_cast<int64_t>(0.9 * static_cast<double>(batch) * static_cast<double>(*free) /
                                         static_cast<double>(bytes));
  throw run_error(
      "{} has not enough memory: what is computed of {} samples needs {:.1f} MiB beside {:.1f} MiB for "
      "parameters, gradients and optimizer state, and {:.1f} MiB are free; {}",
      device_->name(), batch, static_cast<double>(bytes) / kMegabyte,
      static_cast<double>(home_->arena.bytes * (2 + home_->states.size())) / kMegabyte,
      static_cast<double>(*free) / kMegabyte,
      fits > 0 ? fmt::format("a batch of {} on this device would fit", fits) : "no batch would fit");
}

Context& Replica::context_for(Purpose purpose, int64_t batch) {
  Compiled& compiled = compiled_[{purpose, batch}];
  if (compiled.context) return *compiled.context;
  compiled.executable =
      device_->compile(graph_of(purpose).with_batch(batch), {.accumulation = Accumulation::overwrite,
                                                             .parameters = &home_->arena,
                                                             .metrics = program_.metrics,
                                                             .tf32 = tf32_});
  if (activations_ == nullptr || compiled.executable->activation_bytes() > activations_->size()) {
    for (auto& other : compiled_) other.second.context.reset();  // they used the smaller memory
    activations_.reset();
    activations_ = allocate_activations(batch, compiled.executable->activation_bytes());
  }
  for (auto& other : compiled_) {
    if (other.second.context || !other.second.executable) continue;
    other.second.context = other.second.executable->bind(home_->arena, bindings());
  }
  return *compiled.context;
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
  const size_t started = started_;
  body();
  const auto end = Clock::now();
  communication_seconds_ += std::chrono::duration<double>(end - start).count();
  if (timeline_ == nullptr) return;
  timeline_->did(StepPhase::exchange, what != nullptr ? what : "sums", end);
  if (what != nullptr) timeline_->called_group(what, start, end);
  if (started_ > started) timeline_->sum_began(start);
  timeline_->sums_complete(complete_, end);
}

void Replica::communicate(const Node& node, std::span<float> memory) {
  if (group_ == nullptr) return;
  const bool sum = node.op->name() == "reduce_bucket";
  communicating(sum ? nullptr : "all-gather", [&] { exchange(node, memory); });
}

void Replica::exchange(const Node& node, std::span<float> memory) {
  if (node.op->name() == "reduce_bucket") {
    const auto [begin, end] = state_->buckets[static_cast<size_t>(node.attributes.integer("bucket"))];
    if (own_gradients_ == nullptr) {
      start_sum(begin, end);
    } else {
      handed_over_.push_back(
          {begin, end,
           device_->start_copy_out(gradients_ + begin, exchanged_.subspan(begin, end - begin), true)});
      start_sums_that_arrived();
    }
    return;
  }
  // The device has put its row first.
  const auto rank = static_cast<size_t>(group_->rank());
  const size_t length = memory.size() / static_cast<size_t>(group_->size());
  if (rank > 0)
    std::copy_n(memory.begin(), length, memory.begin() + static_cast<std::ptrdiff_t>(rank * length));
  group_->all_gather(memory);
}

void Replica::start_sum(size_t begin, size_t end) {
  group_->start_reduce_scatter(
      {reinterpret_cast<float*>(exchanged_.data() + begin), (end - begin) / sizeof(float)});
  ++started_;
}

void Replica::start_sums_that_arrived() {
  for (; !handed_over_.empty() && handed_over_.front().copy->done(); handed_over_.pop_front())
    start_sum(handed_over_.front().begin, handed_over_.front().end);
}

void Replica::poll() {
  if (!handed_over_.empty()) communicating(nullptr, [this] { start_sums_that_arrived(); });
  if (complete_ < started_) communicating(nullptr, [this] { complete_ = group_->poll(); });
}

void Replica::finish() {
  if (group_ == nullptr) return;
  communicating(nullptr, [this] {
    while (!handed_over_.empty()) {
      handed_over_.front().copy->wait();
      start_sums_that_arrived();
      group_->poll();
    }
    group_->finish();
    complete_ = started_;
    take_sums();
  });
  if (timeline_ != nullptr) timeline_->sums_finished();
  started_ = complete_ = 0;
}

void Replica::take_sums() {
  if (own_gradients_ == nullptr) return;
  for (const auto& [begin, end] : owned_)
    device_->copy_in(exchanged_.subspan(begin, end - begin), gradients_ + begin);
}

void Replica::share_parameters() {
  device_->synchronise();  // others read what it has updated
  std::byte* passage = state_->passage();
  std::byte* parameters = home_->parameters->data();
  const bool passes = passage != nullptr && passage != parameters && !group_->sums_on_device();
  if (passes) {
    for (const auto& [begin, end] : owned_)
      device_->copy_out(parameters + begin, {passage + begin, end - begin});
  }
  group_->barrier();
  if (passage == nullptr || group_->sums_on_device()) return;
  if (passes) device_->copy_in({passage, home_->arena.bytes}, parameters);
  group_->barrier();
}

void Replica::communicate_without_samples() {
  // A part without samples contributes zeros and takes part in every exchange.
  device_->zero(gradients_, home_->arena.bytes);
  did(StepPhase::backward, "clears gradients");
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

double Replica::exchange_norm() {
  double sum = 0;
  for (const auto& [begin, end] : owned_) sum += updater_->sum_of_squares(update_bindings(), begin, end);
  did(StepPhase::update, "gradient norm");
  if (group_ != nullptr) communicating("sum of norms", [&] { sum = group_->sum_over_shards(sum); });
  return sum;
}

UpdateBindings Replica::update_bindings() const {
  UpdateBindings bindings{home_->parameters->data(), gradients_, {}};
  for (const auto& state : home_->states) bindings.states.push_back(state->data());
  return bindings;
}

bool Replica::update(const UpdateBindings& bindings, const StepInputs& inputs, int64_t global_samples,
                     double sum_of_squares) {
  const UpdateScalars scalars{inputs.learning_rate, static_cast<float>(global_samples),
                              static_cast<float>(inputs.step)};
  bool finite = true;
  for (const auto& [begin, end] : owned_)
    finite = updater_->apply(bindings, scalars, sum_of_squares, begin, end) && finite;
  return finite;
}

void Replica::clear_metrics() {
  device_->zero(metrics_memory_->data(), metrics_.size() * sizeof(float));
  metrics_are_here_ = false;
}

void Replica::wait_until_computed() {
  if (device_->in_host_memory()) return;
  const auto copied =
      device_->start_copy_out(metrics_memory_->data(), std::as_writable_bytes(std::span(metrics_)), false);
  while (!copied->done()) {
    poll();
    std::this_thread::yield();  // to replicas on processors
  }
  metrics_are_here_ = true;
}

std::span<float> Replica::metrics() {
  if (!std::exchange(metrics_are_here_, true))
    device_->copy_out(metrics_memory_->data(), std::as_writable_bytes(std::span(metrics_)));
  return metrics_;
}

std::vector<double> Replica::take_metrics() {
  const std::span<const float> sums = metrics();
  return {sums.begin(), sums.end()};
}

void Replica::accrue(int64_t samples) {
  pending_samples_ += samples;
  ++pending_batches_;
  if (accrued_ == nullptr) return;
  if (pending_batches_ == 1) device_->zero(accrued_->data(), accrued_->size());
  device_->add(accrued_->data(), gradients_, accrued_->size() / sizeof(float));
}

void Replica::push(Action action, bool then_pull, const StepInputs& inputs, StepResult& result) {
  ServerExchange::Terms terms;
  terms.pull = then_pull;
  terms.learning_rate =
      static_cast<float>(program_.servers->learning_rate.value_or(static_cast<double>(inputs.learning_rate)));
  terms.push = true;
  if (program_.servers->rounds) {
    terms.round = store_->next_round();
    terms.push = terms.round.has_value();
  }
  StoreReport report;
  if (action == Action::push_difference) {
    terms.samples = static_cast<float>(pending_samples_);
    report = exchange_->push_differences(terms, home_->parameters->data());
  } else {
    // The mean of each batch counts as a gradient of its own, as if each had been pushed.
    terms.samples = static_cast<float>(pending_samples_) / static_cast<float>(pending_batches_);
    const std::byte* gradients = accrued_ != nullptr ? accrued_->data() : gradients_;
    report = exchange_->push_gradients(gradients, pending_batches_, terms, home_->parameters->data());
  }
  pending_samples_ = 0;
  pending_batches_ = 0;
  result.fate = terms.push && !report.late ? StepResult::Fate::used : StepResult::Fate::dropped;
  result.finite = result.finite && report.finite;
  result.staleness = report.staleness;
  result.lost_updates = report.lost_updates;
}

void Replica::pull() { exchange_->pull(home_->parameters->data()); }

StepResult Replica::flush(const StepInputs& inputs) {
  StepResult result;
  if (pending_batches_ == 0) return result;
  for (const auto& [action, every] : schedule_) {
    if (action == Action::push_gradient || action == Action::push_difference)
      push(action, true, inputs, result);
  }
  return result;
}

bool Replica::can_run_ahead() const {
  return (group_ == nullptr || group_->sums_on_device()) && store_ == nullptr && timeline_ == nullptr &&
         !device_->in_host_memory() && !updater_->clips();
}

void Replica::begin(const BatchView& part, const StepInputs& inputs, int64_t global_samples) {
  const size_t values = metrics_.size() + 1;
  if (returned_.empty()) {
    returned_.resize(Session::kStepsAhead * values);
    pinned_ = device_->pin(std::as_writable_bytes(std::span(returned_)));
  }
  clear_metrics();
  begin_step(part, inputs);
  compute(Action::compute_gradient);
  if (group_ != nullptr) {
    group_->start_reduce_scatter({reinterpret_cast<float*>(metrics_memory_->data()), metrics_.size()});
    group_->finish();
  }
  UpdateBindings bindings = update_bindings();
  bindings.loss = reinterpret_cast<const float*>(metrics_memory_->data());
  bindings.spoilt = reinterpret_cast<float*>(metrics_memory_->data()) + metrics_.size();
  update(bindings, inputs, global_samples, 0);
  const auto place = std::span(returned_).subspan(begun_++ % Session::kStepsAhead * values, values);
  ahead_.emplace_back(device_->start_copy_out(metrics_memory_->data(), std::as_writable_bytes(place), false),
                      place);
}

bool Replica::oldest_is_done() const {
  return ahead_.size() == Session::kStepsAhead || (!ahead_.empty() && ahead_.front().first->done());
}

StepResult Replica::finished() {
  if (ahead_.empty()) throw run_error("no step was begun whose result is wanted");
  const auto& [copy, values] = ahead_.front();
  copy->wait();
  StepResult result;
  result.metrics.assign(values.begin(), values.end() - 1);
  result.finite = std::isfinite(values.front()) && values.back() == 0;
  ahead_.pop_front();
  if (!result.finite &&
      ahead_.empty())  // those that were begun after it have updated nothing; the next one may
    device_->zero(metrics_memory_->data(), metrics_memory_->size());
  return result;
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
  clear_metrics();
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
        step.result.finite = std::isfinite(metrics()[0]);
        accrue(part.size);
        step.result.fate = StepResult::Fate::pending;
        break;
      }
      case Action::finish_exchange: finish(); break;
      case Action::exchange_metrics:
        communicating("sum of metrics", [this] { group_->all_reduce(metrics()); });
        break;
      case Action::exchange_norm:
        if (!updater_->clips()) break;
        sum_of_squares = exchange_norm();
        summed = true;
        break;
      case Action::update_shard:
        // Every member sees the same summed loss, so all of them update or none does.
        step.result.finite = std::isfinite(metrics()[0]);
        if (!step.result.finite) break;
        if (updater_->clips() && !summed) sum_of_squares = exchange_norm();
        step.result.finite = update(update_bindings(), inputs, global_samples, sum_of_squares);
        did(StepPhase::update, "update");
        break;
      case Action::wait_for_all: communicating("barrier", [this] { share_parameters(); }); break;
      case Action::push_gradient:
      case Action::push_difference:
        if (!step.result.finite) break;
        push(scheduled.action, pull_is_due, inputs, step.result);
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
  clear_metrics();
  if (part.size > 0) {
    Context& context = context_for(Purpose::evaluation, part.size);
    set_inputs(context, part, 0);
    context.run(*this);
  }
  if (group_ != nullptr) group_->all_reduce(metrics());
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
  finish();
  return std::exchange(first_non_finite_, {});
}

std::vector<OperationTime> Replica::profile(const BatchView& part, const StepInputs& inputs) {
  return time_operations([&] {
    Context& context = context_for(Purpose::gradient, part.size);
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
