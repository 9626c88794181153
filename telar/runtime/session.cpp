#include "telar/runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <numeric>

#include "telar/core/error.h"
#include "telar/device/cuda.h"
#include "telar/nn/initialise.h"
#include "telar/runtime/pipeline_stage.h"
#include "telar/runtime/replica.h"
#include "telar/runtime/replica_groups.h"
#include "telar/runtime/replica_threads.h"
#include "telar/runtime/replica_times.h"
#include "telar/runtime/shares.h"
#include "telar/runtime/state_tensors.h"

namespace telar {

namespace {

std::vector<double> starting_shares(const SessionOptions& options, const Cluster& cluster, bool by_threads) {
  if (!options.shares.empty()) {
    if (options.shares.size() != cluster.devices.size()) {
      throw user_error("{} shares for {} replicas; give one for each", options.shares.size(),
                       cluster.devices.size());
    }
    return options.shares;
  }
  std::vector<double> shares;
  for (const DeviceSpec& device : cluster.devices) shares.push_back(by_threads ? device.threads : 1);
  return shares;
}

std::unique_ptr<Device> make_device(const DeviceSpec& spec) {
  if (const auto gpu = cuda_number(spec.kind)) return make_cuda_device(*gpu);
  if (spec.kind != "cpu") throw user_error("unknown device '{}'; it is cpu or cuda:N", spec.kind);
  return make_cpu_device(spec.threads, spec.cores);
}

size_t input_item_bytes(const Graph& graph, const char* name) {
  if (!graph.has(ValueKind::input, name)) return 0;
  const TensorType& type = graph.value(graph.find(ValueKind::input, name)).type;
  return static_cast<size_t>(type.shape.elements_per_item()) * size_of(type.dtype);
}

}  // namespace

class Session::Impl {
 public:
  Impl(Program program, const Cluster& cluster, SessionOptions options)
      : program_(std::move(program)),
        options_(std::move(options)),
        shares_(starting_shares(options_, cluster, options_.measured_shares || staged())),
        groups_(static_cast<int>(program_.workers.size()),
                program_.workers.size() == 1 && program_.buckets.empty() && !staged(), options_.processes),
        threads_(static_cast<int>(program_.workers.size())),
        x_bytes_(input_item_bytes(program_.evaluation, "x")),
        label_bytes_(input_item_bytes(program_.evaluation, "label")),
        exchange_(program_.workers.size(), program_.parameters.size(), x_bytes_, label_bytes_),
        bubble_(static_cast<int64_t>(program_.workers.size()), program_.micro_batches) {
    std::vector<std::unique_ptr<Device>> devices;
    for (const WorkerProgram& worker : program_.workers) {
      devices.push_back(make_device(cluster.devices[static_cast<size_t>(worker.device)]));
      if (staged() && !devices.back()->in_host_memory())
        throw user_error("a pipeline's stages run on processors, not on {}; mirrored trains on GPUs",
                         devices.back()->name());
    }
    on_each([&](int rank) { devices[static_cast<size_t>(rank)]->enter(); });
    if (!staged())
      groups_.join_gpus(devices, options_.gpu_exchange, [this](const auto& work) { on_each(work); });
    make_replicas(std::move(devices));
    allocate();
    on_each([&](int rank) { replica(rank).attach(state_); });
    initialise();
  }

  void initialise() {
    for (const ParameterInfo& parameter : program_.parameters) {
      std::vector<float> values(static_cast<size_t>(parameter.shape.elements()));
      telar::initialise(parameter, options_.seed, values);
      write(parameter.name, values);
    }
    for (const auto& memory : state_.memories)
      for (const auto& state : memory->states) memory->device->zero(state->data(), state->size());
  }

  void begin(const BatchView& batch, const StepInputs& inputs) {
    const int64_t samples = inputs.samples > 0 ? inputs.samples : batch.size;
    if (samples < 1) throw run_error("a step needs at least 1 sample");
    if (replica(0).can_run_ahead()) {
      const auto parts = split(batch);
      on_each([&](int rank) { replica(rank).begin(parts[static_cast<size_t>(rank)], inputs, samples); });
    } else {
      done_.push_back(train(batch, inputs, samples));
    }
  }

  std::optional<StepResult> finished(bool wait) {
    if (!done_.empty()) {
      StepResult result = std::move(done_.front());
      done_.pop_front();
      return result;
    }
    if (!wait && !replica(0).oldest_is_done()) return std::nullopt;
    std::vector<StepResult> results(replicas_.size());
    on_each([&](int rank) { results[static_cast<size_t>(rank)] = replica(rank).finished(); });
    for (const StepResult& result : results) results[0].finite = results[0].finite && result.finite;
    return results[0];
  }

  StepResult train(const BatchView& batch, const StepInputs& inputs, int64_t samples) {
    const auto parts = training_parts(batch);
    std::vector<Replica::Step> steps(replicas_.size());
    const auto start = std::chrono::steady_clock::now();
    begin_phases(replicas_, inputs.waited_since.value_or(start), start);
    on_each([&](int rank) {
      steps[static_cast<size_t>(rank)] =
          replica(rank).train(parts[static_cast<size_t>(rank)], inputs, samples);
    });
    record_speed(parts, steps, std::chrono::steady_clock::now() - start);
    if (staged()) record_bubble(start, steps);
    StepResult result = steps[0].result;
    for (const Replica::Step& step : steps) result.finite = result.finite && step.result.finite;
    result.communication = communication_of(steps);
    result.phases = end_phases(replicas_, result.communication);
    return result;
  }

  void pull() {
    on_first([this] { replica(0).pull(); });
  }

  StepResult flush(const StepInputs& inputs) {
    StepResult result;
    on_first([&] { result = replica(0).flush(inputs); });
    return result;
  }

  std::vector<double> evaluate(const BatchView& batch) {
    const auto parts = split(batch);
    std::vector<std::vector<double>> sums(replicas_.size());
    on_each([&](int rank) {
      sums[static_cast<size_t>(rank)] = replica(rank).evaluate(parts[static_cast<size_t>(rank)]);
    });
    return sums[0];
  }

  std::vector<float> predict(const BatchView& batch) {
    const auto parts = split(batch);
    std::vector<std::vector<float>> outputs(replicas_.size());
    on_each([&](int rank) {
      outputs[static_cast<size_t>(rank)] = replica(rank).predict(parts[static_cast<size_t>(rank)]);
    });
    std::vector<float> all;
    for (const auto& output : outputs) all.insert(all.end(), output.begin(), output.end());
    return all;
  }

  std::string find_non_finite(const BatchView& batch, const StepInputs& inputs) {
    for (const ParameterInfo& parameter : program_.parameters) {
      const auto values = tensors().read(parameter.name);
      if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
        return fmt::format("parameter '{}' (an earlier update made it so)", parameter.name);
      }
    }
    const auto parts = training_parts(batch);
    std::vector<std::string> found(replicas_.size());
    on_each([&](int rank) {
      found[static_cast<size_t>(rank)] =
          replica(rank).find_non_finite(parts[static_cast<size_t>(rank)], inputs);
    });
    const auto first =
        std::find_if(found.begin(), found.end(), [](const auto& place) { return !place.empty(); });
    std::string place = first == found.end() ? "" : *first;
    if (options_.processes != nullptr) place = options_.processes->first_text(place);
    return place.empty() ? "the sum of the losses" : place;
  }

  std::vector<OperationTime> profile(const BatchView& batch, const StepInputs& inputs) {
    const auto parts = training_parts(batch);
    std::vector<std::vector<OperationTime>> times(replicas_.size());
    on_each([&](int rank) {
      times[static_cast<size_t>(rank)] = replica(rank).profile(parts[static_cast<size_t>(rank)], inputs);
    });
    std::vector<OperationTime> all = times[0];
    for (size_t s = 1; staged() && s < times.size(); ++s)
      all.insert(all.end(), times[s].begin(), times[s].end());
    return all;
  }

  void record_phases(int64_t steps) {
    for (const auto& replica : replicas_) replica->record(steps);
  }

  std::vector<TraceRow> trace(std::chrono::steady_clock::time_point zero) const {
    return trace_of(replicas_, staged() ? "stage" : "replica", zero);
  }

  StateTensors tensors() const { return {program_, state_, replicas_}; }

  void write(const std::string& name, std::span<const float> values) {
    const Shape shape = tensors().shape(name);
    if (static_cast<int64_t>(values.size()) != shape.elements()) {
      throw user_error("'{}' has the shape {}, but {} values were given", name, shape.str(), values.size());
    }
    on_first([&] { tensors().write(name, values); });
  }

  SessionMemory memory() const {
    SessionMemory memory;
    const size_t gradients = staged() ? 1 : replicas_.size();
    const size_t copies = state_.memories.size() * (1 + state_.slots.size());
    memory.parameter_bytes = state_.arena().bytes * (copies + gradients);
    for (const auto& replica : replicas_) memory.activation_bytes += replica->activation_bytes();
    return memory;
  }

  const Program& program() const { return program_; }
  bool staged() const { return program_.micro_batches > 0; }
  std::optional<Bubble> bubble() const { return staged() ? bubble_.bubble() : std::nullopt; }
  int processes() const { return options_.processes == nullptr ? 1 : options_.processes->size(); }
  std::vector<double> shares() const { return shares_.shares(); }
  std::optional<MixedSpeed> mixed_speed() const { return mixed_speed_->speed(); }
  bool exchanges_by_nccl() const { return groups_.sum_by_nccl(); }
  std::vector<std::string> device_names() const {
    std::vector<std::string> names;
    for (const auto& replica : replicas_) names.push_back(replica->device().name());
    return names;
  }

 private:
  Replica& replica(int rank) { return *replicas_[static_cast<size_t>(rank)]; }

  void on_each(const std::function<void(int)>& work) {
    try {
      threads_.run(work, [this](int rank) {
        groups_.fail(rank);
        exchange_.stop();
      });
    } catch (...) {
      groups_.reset();
      exchange_.reset();
      throw;
    }
  }

  void on_first(const std::function<void()>& work) {
    on_each([&](int rank) {
      if (rank == 0) work();
    });
  }

  void make_replicas(std::vector<std::unique_ptr<Device>> devices) {
    std::vector<bool> on_gpu;
    for (size_t w = 0; w < devices.size(); ++w) {
      Group* group = groups_.of(static_cast<int>(w));
      on_gpu.push_back(!devices[w]->in_host_memory());
      if (staged()) {
        replicas_.push_back(std::make_unique<PipelineStage>(program_, w, std::move(devices[w]), *group,
                                                            exchange_, options_.seed));
      } else {
        replicas_.push_back(std::make_unique<Replica>(program_, program_.workers[w], std::move(devices[w]),
                                                      group, options_.store, options_.seed, options_.tf32));
      }
    }
    mixed_speed_.emplace(std::move(on_gpu));
  }

  /// The layouts of the parameters by name, chosen by the first replica's device, whose choice all take; or by each stage for
  /// its own.
  std::map<std::string, TensorLayout> wanted_layouts() {
    // A stage's gradient graph is of a micro-batch.
    const Graph& whole = staged() ? program_.evaluation : program_.gradient_graph();
    const int64_t step = options_.typical_batch > 0 ? options_.typical_batch : whole.batch() / processes();
    const int64_t batch = std::max<int64_t>(1, step);
    const auto parts = split_by_shares(batch, shares_.shares());
    std::vector<std::vector<std::pair<std::string, TensorLayout>>> wanted(replicas_.size());
    on_each([&](int rank) {
      if (staged()) {
        wanted[static_cast<size_t>(rank)] = replica(rank).wanted_layouts(batch);
      } else if (rank == 0) {
        wanted[0] = replica(0).wanted_layouts(std::max<int64_t>(1, parts[0]));
      }
    });
    std::map<std::string, TensorLayout> layouts;
    for (const auto& mine : wanted) layouts.insert(mine.begin(), mine.end());
    return layouts;
  }

  void allocate() {
    std::vector<const Device*> devices;
    for (const auto& replica : replicas_) devices.push_back(&replica->device());
    state_.allocate(program_, devices, wanted_layouts());
    if (options_.processes == nullptr) return;
    options_.processes->require_same(
        state_.layout_text(), "the layout of the parameters; hosts of one run need processors of one kind");
  }

  /// What each worker has of a training batch: a replica its part, a stage all of it.
  std::vector<BatchView> training_parts(const BatchView& batch) const {
    if (staged()) return std::vector<BatchView>(replicas_.size(), batch);
    return split(batch);
  }

  std::vector<BatchView> split(const BatchView& batch) const {
    std::vector<BatchView> parts;
    int64_t begin = 0;
    for (const int64_t size : split_by_shares(batch.size, shares_.shares())) {
      const auto offset = static_cast<size_t>(begin);
      const auto advance = [&](const void* base, size_t item) -> const void* {
        return base == nullptr ? nullptr : static_cast<const std::byte*>(base) + offset * item;
      };
      parts.push_back({size, advance(batch.x, x_bytes_), advance(batch.label, label_bytes_),
                       batch.sample == nullptr ? nullptr : batch.sample + begin, batch.again});
      begin += size;
    }
    return parts;
  }

  void record_bubble(std::chrono::steady_clock::time_point start, const std::vector<Replica::Step>& steps) {
    auto end = start;
    double busy = 0;
    for (const Replica::Step& step : steps) {
      end = std::max(end, step.computed);
      busy += step.compute_seconds;
    }
    bubble_.record(end - start, busy);
  }

  void record_speed(const std::vector<BatchView>& parts, const std::vector<Replica::Step>& steps,
                    std::chrono::duration<double> step) {
    if (!options_.measured_shares && !mixed_speed_->mixed()) return;
    std::vector<int64_t> samples;
    std::vector<double> seconds;
    for (size_t i = 0; i < parts.size(); ++i) {
      samples.push_back(parts[i].size);
      seconds.push_back(steps[i].compute_seconds);
    }
    if (options_.measured_shares) shares_.record(samples, seconds);
    mixed_speed_->record(samples, seconds, step.count());
  }

  Program program_;
  SessionOptions options_;
  MeasuredShares shares_;
  ReplicaGroups groups_;
  ReplicaThreads threads_;
  size_t x_bytes_;
  size_t label_bytes_;
  StageExchange exchange_;  ///< of a pipeline's stages
  BubbleMeter bubble_;
  std::optional<MixedSpeedMeter> mixed_speed_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  SharedState state_;
  std::deque<StepResult> done_;  ///< of steps that were made when they were begun
};

Session::Session(Program program, const Cluster& cluster, SessionOptions options)
    : impl_(std::make_unique<Impl>(std::move(program), cluster, std::move(options))) {}
Session::~Session() = default;

void Session::initialise() { impl_->initialise(); }
StepResult Session::train(const BatchView& batch, const StepInputs& inputs) {
  impl_->begin(batch, inputs);
  return *impl_->finished(true);
}
void Session::begin(const BatchView& batch, const StepInputs& inputs) { impl_->begin(batch, inputs); }
std::optional<StepResult> Session::finished(bool wait) { return impl_->finished(wait); }
void Session::pull() { impl_->pull(); }
StepResult Session::flush(const StepInputs& inputs) { return impl_->flush(inputs); }
std::vector<double> Session::evaluate(const BatchView& batch) { return impl_->evaluate(batch); }
std::vector<float> Session::predict(const BatchView& batch) { return impl_->predict(batch); }
const std::vector<std::string>& Session::metric_names() const { return impl_->program().metrics; }
std::vector<std::string> Session::state_names() const { return telar::state_names(impl_->program()); }
Shape Session::state_shape(const std::string& name) const {
  return telar::state_shape(impl_->program(), name);
}
std::vector<float> Session::read_state(const std::string& name) const { return impl_->tensors().read(name); }
void Session::write_state(const std::string& name, std::span<const float> values) {
  impl_->write(name, values);
}
std::vector<float> Session::read_gradient(const std::string& parameter) const {
  return impl_->tensors().read_gradient(parameter);
}
std::string Session::find_non_finite(const BatchView& batch, const StepInputs& inputs) {
  return impl_->find_non_finite(batch, inputs);
}
std::vector<OperationTime> Session::profile(const BatchView& batch, const StepInputs& inputs) {
  return impl_->profile(batch, inputs);
}
void Session::record_phases(int64_t steps) { impl_->record_phases(steps); }
std::vector<TraceRow> Session::trace(std::chrono::steady_clock::time_point zero) const {
  return impl_->trace(zero);
}
int Session::replicas() const {
  const auto workers = static_cast<int>(impl_->program().workers.size());
  return impl_->staged() ? 1 : workers * impl_->processes();
}
const Program& Session::program() const { return impl_->program(); }
std::string Session::strategy() const { return impl_->program().strategy; }
std::vector<std::string> Session::device_names() const { return impl_->device_names(); }
std::optional<MixedSpeed> Session::mixed_speed() const { return impl_->mixed_speed(); }
bool Session::exchanges_by_nccl() const { return impl_->exchanges_by_nccl(); }
SessionMemory Session::memory() const { return impl_->memory(); }
std::vector<double> Session::shares() const { return impl_->shares(); }
std::optional<Bubble> Session::bubble() const { return impl_->bubble(); }

Shape Session::prediction_shape() const {
  const Graph& graph = impl_->program().prediction;
  std::vector<int64_t> dims = graph.value(graph.output("prediction")).type.shape.dims();
  dims.erase(dims.begin());
  return Shape(dims);
}

}  // namespace telar
