#include "telar/runtime/pipeline_stage.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "telar/core/error.h"
#include "telar/graph/fuse_activations.h"
#include "telar/graph/idle_member.h"

namespace telar {

namespace {

/// Names of the parameters whose gradients a graph computes.
std::vector<std::string> trained_by(const Graph& graph) {
  std::vector<std::string> names;
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::gradient) names.push_back(value.name);
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

PipelineStage::PipelineStage(StepContext& worker, PipelineExchange& exchange)
    : worker_(worker),
      exchange_(exchange.gradient),
      updates_(exchange.updates),
      link_(worker, exchange.gradient, worker.worker().crossings),
      weight_gradients_(fuse_activations(worker.worker().weight_gradients)),
      in_flight_(schedule_depth(worker.worker().schedule, worker.program().micro_batches)) {
  if (!worker.device().in_host_memory())
    throw user_error("the stages of a pipeline run on CPUs, not on {}; choose mirrored to train on GPUs",
                     worker.device().name());
  link_.add_names(worker.gradient_graph());
  link_.add_names(weight_gradients_);
  const WorkerProgram& own = worker.worker();
  evaluation_.emplace(worker, exchange.evaluation, activations_,
                      GraphForms{&worker.evaluation_graph(), &own.evaluation}, own.evaluation_crossings);
  prediction_.emplace(worker, exchange.prediction, activations_,
                      GraphForms{&worker.prediction_graph(), &own.prediction}, own.prediction_crossings);
}

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
  std::vector<double> squares = kept_squares();
  worker_.did(StepPhase::update, "gradient norm");
  worker_.communicating("sum of norms", [&] {
    if (Group* stages = worker_.group(worker_.program().stage_group)) add_of_members(*stages, squares);
  });
  return std::accumulate(squares.begin(), squares.end(), 0.0);
}

std::vector<double> PipelineStage::kept_squares() {
  const std::vector<ParameterInfo>& parameters = worker_.program().parameters;
  const std::vector<KeptPiece>& kept = worker_.home().kept;
  std::vector<double> squares(parameters.size());
  std::vector<double> of_pieces(parameters.size());
  for (size_t e = 0; e < kept.size(); ++e) {
    const ArenaLayout::Entry& entry = worker_.home().arena.entries[e];
    const auto p = static_cast<size_t>(std::ranges::find(parameters, entry.name, &ParameterInfo::name) -
                                       parameters.begin());
    (kept[e].piece.whole() ? squares : of_pieces)[p] = worker_.updater().sum_of_squares(
        worker_.update_bindings(), entry.offset, entry.offset + align_up(entry.layout.bytes));
  }
  const std::string& group = worker_.program().batch_group;
  if (group.empty()) return squares;
  worker_.communicating("sum of norms", [&] { add_of_members(*worker_.group(group), of_pieces); });
  for (size_t p = 0; p < squares.size(); ++p) squares[p] += of_pieces[p];
  return squares;
}

/// Adds the values of the other members, in rank order.
void PipelineStage::add_of_members(Group& group, std::vector<double>& values) {
  constexpr size_t kFloats = sizeof(double) / sizeof(float);
  const auto members = static_cast<size_t>(group.size());
  const size_t row = values.size() * kFloats;
  rows_.assign(row * members, 0.0F);
  std::memcpy(&rows_[row * static_cast<size_t>(group.rank())], values.data(), row * sizeof(float));
  group.all_gather(rows_);
  std::ranges::fill(values, 0.0);
  for (size_t m = 0; m < members; ++m) {
    for (size_t i = 0; i < values.size(); ++i) {
      double value = 0;
      std::memcpy(&value, &rows_[row * m + i * kFloats], sizeof value);
      values[i] += value;
    }
  }
}

PipelineStage::MicroBatchGraph& PipelineStage::micro_batch_graph(const SampleCounts& samples) {
  MicroBatchGraph& graph = graphs_[samples];
  if (graph.executable) return graph;
  const Graph& whole = samples.non_finite ? worker_.worker().gradient : worker_.gradient_graph();
  graph.executable = worker_.device().compile(for_samples(whole, samples.own, samples.rows),
                                              {.accumulation = Accumulation::add,
                                               .parameters = &worker_.home().arena,
                                               .metrics = worker_.program().metrics,
                                               .prepare_parameters = true,
                                               .delivered = &exchange_.layouts,
                                               .non_finite = samples.non_finite});
  graph.prepared = Buffer(graph.executable->prepared_bytes());
  for (const auto& [name, layout] : graph.executable->delivered_layouts())
    exchange_.layouts.emplace(name, layout);
  return graph;
}

void PipelineStage::make_plan(Plan& plan, const SampleCounts& batch) {
  for (const MicroBatchPart& part : micro_batch_parts(batch, worker_.program()))
    plan.micro_batches.push_back({part, &micro_batch_graph(part.samples), nullptr});
  if (weight_gradients_.nodes().empty() || batch.own == 0) return;
  const Graph& whole = batch.non_finite ? worker_.worker().weight_gradients : weight_gradients_;
  plan.weight_gradients =
      worker_.device().compile(whole.with_batch(batch.own), {.parameters = &worker_.home().arena,
                                                             .metrics = worker_.program().metrics,
                                                             .delivered = &exchange_.layouts,
                                                             .non_finite = batch.non_finite});
}

void PipelineStage::bind(Plan& plan) {
  const auto round = [](size_t bytes) { return align_up(bytes); };
  size_t micro_batch_bytes = micro_batch_bytes_;
  for (const MicroBatch& micro_batch : plan.micro_batches)
    micro_batch_bytes = std::max(micro_batch_bytes, round(micro_batch.graph->executable->activation_bytes()));
  size_t bytes = micro_batch_bytes * in_flight_;
  if (plan.weight_gradients) bytes = std::max(bytes, plan.weight_gradients->activation_bytes());
  if (std::exchange(micro_batch_bytes_, micro_batch_bytes) != micro_batch_bytes)
    for (auto& [size, other] : plans_) other.generation = 0;  // their micro-batches are at other places
  const std::span<std::byte> memory = activations_.at_least(bytes);
  for (size_t i = 0; i < plan.micro_batches.size(); ++i) {
    MicroBatch& micro_batch = plan.micro_batches[i];
    const auto addresses = exchange_.addresses(micro_batch.part.first);
    const std::span<std::byte> activations{memory.data() + i % in_flight_ * micro_batch_bytes_,
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
    of_batch.activations = memory;
    of_batch.delivered = &addresses;
    plan.weight_gradients_context = plan.weight_gradients->bind(worker_.home().arena, of_batch);
  }
  std::vector<MicroBatchPart> parts;
  for (const MicroBatch& micro_batch : plan.micro_batches) parts.push_back(micro_batch.part);
  plan.messages = link_.messages(parts);
  plan.generation = generation();
}

PipelineStage::Plan& PipelineStage::plan_for(const SampleCounts& batch) {
  if (std::exchange(resets_, exchange_.resets()) != exchange_.resets()) plans_.clear();
  const bool known = plans_.contains(batch);  // the same in all stages, because all have had the same batches
  Plan& plan = plans_[batch];
  if (!known) {
    link_.in_order([&] { make_plan(plan, batch); });
    link_.reserve(batch.own);
  }
  if (plan.generation != generation()) bind(plan);
  return plan;
}

void PipelineStage::clear_sums() {
  if (plan_->micro_batches.empty()) std::memset(worker_.gradients().arena(), 0, worker_.home().arena.bytes);
  const auto clear = [&](const Graph& graph) {
    for (const std::string& name : trained_by(graph)) {
      const ArenaLayout::Entry& entry = worker_.home().arena.find(name);
      std::memset(worker_.gradients().arena() + entry.offset, 0, align_up(entry.layout.bytes));
    }
  };
  // Gradients computed per micro-batch are added up; those computed at the end are overwritten, if the stage
  // has samples of its own.
  clear(worker_.gradient_graph());
  if (!plan_->weight_gradients) clear(weight_gradients_);
}

void PipelineStage::set_micro_batch_inputs() {
  const BatchView& batch = worker_.request().part;
  const uint32_t epoch = worker_.request().inputs.epoch;
  for (const MicroBatch& micro_batch : plan_->micro_batches)
    worker_.set_inputs(*micro_batch.context,
                       slice(batch, micro_batch.part.first, micro_batch.part.samples.own, exchange_.inputs),
                       epoch);
  if (plan_->weight_gradients_context) worker_.set_inputs(*plan_->weight_gradients_context, batch, epoch);
}

void PipelineStage::begin_step() {
  plan_ = &plan_for(SampleCounts(worker_.request().part));
  worker_.did(StepPhase::other, "finds or compiles kernels");
  set_micro_batch_inputs();
  worker_.did(StepPhase::copy, "takes the batch");
  clear_sums();
  worker_.did(StepPhase::backward, "clears gradients");
  ++steps_;
  link_.begin();
  plan_->messages.start_receiving();
  updates_.begin(index_here(), worker_.gradients().owned_ranges(),
                 [this](size_t begin, size_t end, double sum_of_squares) {
                   return worker_.update(worker_.update_bindings(), sum_of_squares, begin, end);
                 });
}

bool PipelineStage::update(double sum_of_squares) { return updates_.make(index_here(), sum_of_squares); }

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
  link_.wait_forward(micro_batch);
  run_micro_batch(plan_->micro_batches[micro_batch], Phase::before_pause, StepPhase::forward);
  link_.advance_forward();
}

void PipelineStage::backward(size_t micro_batch) {
  if (micro_batch >= plan_->micro_batches.size()) return;
  link_.wait_backward(micro_batch);
  run_micro_batch(plan_->micro_batches[micro_batch], Phase::after_pause, StepPhase::backward);
  link_.advance_backward();
}

void PipelineStage::weight_gradients() {
  if (plan_->weight_gradients_context)
    worker_.run(*plan_->weight_gradients_context, Phase::whole, StepPhase::backward);
  link_.finish_sending(plan_->messages);
}

void PipelineStage::receive(bool forward, size_t micro_batch) {
  link_.receive(plan_->messages, forward, micro_batch);
}

void PipelineStage::send(bool forward, size_t micro_batch) {
  StageLink::send(plan_->messages, forward, micro_batch);
  worker_.did(StepPhase::exchange, "sends");
}

void PipelineStage::poll() {
  if (plan_ != nullptr) StageLink::poll(plan_->messages);
}

std::vector<float> PipelineStage::predict(const BatchView& batch) {
  std::vector<float> own = prediction_->run(batch);
  Group& stages = *worker_.group(worker_.program().stage_group);
  // The stage with the output sends it to all others.
  const uint64_t count = largest_of_members(stages, own.size());
  if (count == 0) return {};
  const bool has = !own.empty();
  const auto source = static_cast<size_t>(largest_of_members(stages, has ? link_.stage() : 0));
  std::vector<float> outputs = has ? std::move(own) : std::vector<float>(static_cast<size_t>(count));
  std::vector<std::span<const std::byte>> outgoing(exchange_.here.count);
  std::vector<std::span<std::byte>> incoming(exchange_.here.count);
  if (has)
    outgoing.assign(outgoing.size(), std::as_bytes(std::span(outputs)));
  else
    incoming[source] = std::as_writable_bytes(std::span(outputs));
  stages.exchange(outgoing, incoming);
  return link_.is_first_here() ? outputs : std::vector<float>();
}

size_t PipelineStage::intervals(size_t of_graph) const {
  const auto micro_batches = static_cast<size_t>(worker_.program().micro_batches);
  return micro_batches * (of_graph + 4) + 2 * weight_gradients_.nodes().size();
}

size_t PipelineStage::activation_bytes() const {
  size_t bytes = activations_.size() + (link_.is_first_here() ? exchange_.bytes() : 0);
  for (const auto& [size, graph] : graphs_) bytes += graph.prepared.size();
  return bytes;
}

}  // namespace telar
