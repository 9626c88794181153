#include "telar/runtime/step_context.h"

#include <algorithm>
#include <bit>
#include <thread>

#include "telar/core/error.h"
#include "telar/graph/fuse_activations.h"
#include "telar/runtime/pipeline_stage.h"

namespace telar {

namespace {

constexpr const char* kInputSample = "sample";
constexpr const char* kInputRandom = "random";

// So that 64-bit sample ids are the low and the high word that the graph's input expects.
static_assert(std::endian::native == std::endian::little);

}  // namespace

StepContext::StepContext(const Program& program, int64_t number, std::unique_ptr<Device> device,
                         WorkerOptions options)
    : program_(program),
      number_(number),
      worker_(program.worker(number)),
      evaluation_(fuse_activations(worker_.evaluation)),
      prediction_(fuse_activations(worker_.prediction)),
      device_(std::move(device)),
      options_(std::move(options)),
      random_{static_cast<uint32_t>(options_.seed), static_cast<uint32_t>(options_.seed >> 32), 0, 0} {
  for (size_t phase = 0; phase < phases_of(worker_); ++phase)
    gradients_of_phases_.push_back(fuse_activations(gradient_in(worker_, phase)));
  if (options_.stages != nullptr) stage_ = std::make_unique<PipelineStage>(*this, *options_.stages);
}

StepContext::~StepContext() = default;

std::vector<std::pair<std::string, TensorLayout>> StepContext::wanted_layouts(
    int64_t batch, const std::vector<int64_t>& rows) const {
  if (stage_) return stage_->wanted_layouts(batch);
  const auto executable = device_->compile(gradient_graph().with_batch(batch, rows),
                                           {.metrics = program_.metrics, .tf32 = options_.tf32});
  return executable->parameter_layouts();
}

void StepContext::attach(SharedState& state) {
  using Purpose = CompiledGraphs::Purpose;
  home_ = &state.memory_of(index());
  gradients_.emplace(
      *device_, program_, [this](const std::string& name) { return group(name); }, state, *home_);
  metrics_.emplace(*device_, program_.metrics.size());
  updater_ = device_->compile_update(worker_.update, home_->arena);
  update_bindings_ = {home_->parameters->data(), gradients_->arena(), {}};
  for (const auto& slot : home_->states) update_bindings_.states.push_back(slot->data());
  std::map<CompiledGraphs::Use, GraphForms> graphs{
      {Purpose::evaluation, {&evaluation_, &worker_.evaluation}},
      {Purpose::prediction, {&prediction_, &worker_.prediction}}};
  for (size_t phase = 0; phase < phases_of(worker_); ++phase)
    graphs[{Purpose::gradient, phase}] = {&gradients_of_phases_[phase], &gradient_in(worker_, phase)};
  graphs_.emplace(*device_, *home_, bindings(),
                  CompileOptions{.metrics = program_.metrics, .tf32 = options_.tf32}, std::move(graphs));
  if (options_.store != nullptr)
    pending_push_.emplace(program_, only_store(program_), *options_.store, *device_, *home_);
}

Group* StepContext::group(const std::string& name) const {
  if (name == kAllWorkers) return options_.group;
  const auto found = options_.groups.find(name);
  if (found != options_.groups.end()) return found->second;
  throw run_error("the program has no group '{}'", name);
}

Bindings StepContext::bindings() const {
  Bindings bindings;
  bindings.parameters = home_->parameters->data();
  bindings.gradients = gradients_->arena();
  bindings.metrics = metrics_->on_device();
  return bindings;
}

size_t StepContext::activation_bytes() const {
  return graphs_->activation_bytes() + (stage_ ? stage_->activation_bytes() : 0);
}

void StepContext::begin_step(const StepRequest& request) {
  request_ = request;
  phase_ = phase_at(worker_, request.inputs.step);
  step_ = {};
  notes_ = {};
  found_ = {};
  communication_seconds_ = 0;
  metrics_->clear();
  did(StepPhase::other, "begins");
  if (stage_) stage_->begin_step();
}

WorkerStep StepContext::end_step() {
  step_.after_gradient_seconds = communication_seconds_;
  const std::span<const float> sums = metrics_->values();
  step_.result.metrics.assign(sums.begin(), sums.end());
  did(StepPhase::other, "collects metrics");
  return std::move(step_);
}

bool StepContext::is_due(const ScheduledAction& scheduled) const {
  if (scheduled.after_work) return request_.inputs.completes_work;
  // Workers in step count the steps of the job, so that one that is done again or resumed shifts nothing.
  const bool together = program_.cooperation.kind == Cooperation::Kind::lockstep;
  return (together ? request_.inputs.step : request_.number) % scheduled.every == 0;
}

bool StepContext::is_due(ActionKind kind) const {
  return std::ranges::any_of(schedule(), [&](const ScheduledAction& scheduled) {
    return scheduled.kind == kind && is_due(scheduled);
  });
}

void StepContext::set_inputs(Context& graph, const BatchView& part, uint32_t epoch) {
  if (part.again) return;
  random_[2] = epoch;
  for (const BatchInput& input : part.inputs) graph.set_input(std::string(input.name), input.data);
  graph.set_input(kInputSample, part.sample);
  graph.set_input(kInputRandom, random_.data());
}

void StepContext::run(Context& graph, Phase phase, StepPhase direction) {
  if (!request_.inspects) return graph.run(*this, phase);
  const auto place = graph.find_non_finite(*this, phase);
  std::string& first = direction == StepPhase::forward ? found_.forward : found_.backward;
  if (place && first.empty()) first = *place;
}

void StepContext::wait_until_computed() {
  if (device_->in_host_memory()) return;
  const auto copied = metrics_->start_copy();
  while (!copied->done()) {
    poll();
    std::this_thread::yield();  // to replicas on CPUs
  }
  metrics_->arrived();
}

void StepContext::finish_sums() {
  if (options_.group == nullptr) return;
  communicating(nullptr, [this] { gradients_->finish(); });
  if (timeline_ != nullptr) timeline_->sums_finished();
  gradients_->count_anew();
}

bool StepContext::update(UpdateBindings bindings, double sum_of_squares, size_t begin, size_t end) const {
  const UpdateScalars scalars{request_.inputs.learning_rate, static_cast<float>(request_.samples),
                              static_cast<float>(request_.inputs.step)};
  // The state of the range is not where its parameters are, if only a part of it is kept.
  bindings.states_begin = begin;
  for (std::byte*& state : bindings.states) state += home_->state_offset(begin);
  return updater_->apply(bindings, scalars, sum_of_squares, begin, end);
}

double StepContext::sum_of_squares(Group* group) {
  if (stage_) return stage_->sum_of_squares();
  if (home_->update == Update::whole && !trains_alone(schedule())) return sum_of_pieces();
  double sum = 0;
  for (const auto& [begin, end] : gradients_->owned_ranges())
    sum += updater_->sum_of_squares(update_bindings_, begin, end);
  did(StepPhase::update, "gradient norm");
  if (group == nullptr || trains_alone(schedule())) return sum;
  communicating("sum of norms", [&] {
    sum = home_->update == Update::of_all ? sum_over_members(*group, sum) : group->sum_over_shards(sum);
  });
  return sum;
}

double StepContext::sum_of_pieces() {
  // Each piece is counted by all workers that keep it, so each counts its part of it.
  double sum = 0;
  for (size_t i = 0; i < home_->arena.entries.size(); ++i) {
    const ArenaLayout::Entry& entry = home_->arena.entries[i];
    const Group* copies = group(home_->kept[i].copies);
    const double squares =
        updater_->sum_of_squares(update_bindings_, entry.offset, entry.offset + align_up(entry.layout.bytes));
    sum += copies == nullptr ? squares : squares / copies->size();
  }
  did(StepPhase::update, "gradient norm");
  communicating("sum of norms", [&] { sum = sum_over_members(*options_.group, sum); });
  return sum;
}

void StepContext::communicate(const Node& node, std::span<float> memory) {
  if (options_.group == nullptr) return;
  if (node.op->effect() == Effect::sums_gradients) {
    const auto bucket = static_cast<size_t>(node.attributes.integer("bucket"));
    communicating(nullptr, [&] { gradients_->start(bucket); });
  } else {
    communicating("all-gather", [&] { gather(*group(node.attributes.text("group")), memory); });
  }
}

void StepContext::exchange(const Node& node, Inputs inputs, Outputs outputs) {
  Group& members = *group(node.attributes.text("group"));
  if (node.op->exchanges_samples()) {
    communicating("samples", [&] { samples_.run(node, inputs[0], outputs[0], members); });
  } else {
    communicating("parameters", [&] { parameters_.run(node, inputs, outputs, members); });
  }
}

void StepContext::gather(Group& group, std::span<float> rows) {
  const auto rank = static_cast<size_t>(group.rank());
  const size_t length = rows.size() / static_cast<size_t>(group.size());
  if (rank > 0) std::copy_n(rows.begin(), length, rows.begin() + static_cast<std::ptrdiff_t>(rank * length));
  group.all_gather(rows);
}

void StepContext::poll() {
  if (gradients_->under_way()) communicating(nullptr, [this] { gradients_->poll(); });
  if (stage_) stage_->poll();
}

void StepContext::warn(const std::string& text) {
  if (const auto once = std::exchange(options_.warn, {})) once(text);
}

void StepContext::record(int64_t steps) {
  timeline_ = std::make_unique<Timeline>(steps, static_cast<size_t>(steps) * intervals());
}

std::vector<OperationTime> StepContext::time_operations(const std::function<void()>& body) {
  auto own = std::make_unique<Timeline>(1, intervals());
  timeline_.swap(own);
  timeline_->begin(Clock::now());
  body();
  timeline_.swap(own);
  return own->operations();
}

size_t StepContext::intervals() const {
  const size_t of_graph = 3 * gradient_graph().nodes().size() + 64;
  return stage_ ? stage_->intervals(of_graph) : of_graph;
}

}  // namespace telar
