#include "telar/runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "telar/comm/thread_group.h"
#include "telar/core/error.h"
#include "telar/nn/initialise.h"
#include "telar/runtime/pipeline_stage.h"
#include "telar/runtime/replica.h"
#include "telar/runtime/replica_threads.h"
#include "telar/runtime/replica_times.h"
#include "telar/runtime/shares.h"

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
  if (spec.kind != "cpu") throw user_error("unknown device '{}'; this build has cpu", spec.kind);
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
        team_(static_cast<int>(program_.workers.size())),
        threads_(static_cast<int>(program_.workers.size())),
        x_bytes_(input_item_bytes(program_.evaluation, "x")),
        label_bytes_(input_item_bytes(program_.evaluation, "label")),
        exchange_(program_.workers.size(), program_.parameters.size(), x_bytes_, label_bytes_),
        bubble_(static_cast<int64_t>(program_.workers.size()), program_.micro_batches) {
    const bool alone = program_.workers.size() == 1;
    for (size_t w = 0; w < program_.workers.size(); ++w) {
      const WorkerProgram& worker = program_.workers[w];
      Group* group = alone && program_.buckets.empty() ? nullptr : &team_.member(static_cast<int>(w));
      if (options_.processes != nullptr && group != nullptr) {
        joined_.push_back(options_.processes->join(*group));
        group = joined_.back().get();
      }
      auto device = make_device(cluster.devices[static_cast<size_t>(worker.device)]);
      if (staged()) {
        replicas_.push_back(std::make_unique<PipelineStage>(
            program_, w, std::move(device), team_.member(static_cast<int>(w)), exchange_, options_.seed));
      } else {
        replicas_.push_back(std::make_unique<Replica>(program_, worker, std::move(device), group,
                                                      options_.store, options_.seed));
      }
    }
    on_each([&](int rank) { replica(rank).device().enter(); });
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
    for (Buffer& buffer : state_.states) std::fill_n(buffer.data(), buffer.size(), std::byte{0});
  }

  StepResult train(const BatchView& batch, const StepInputs& inputs) {
    const int64_t samples = inputs.samples > 0 ? inputs.samples : batch.size;
    if (samples < 1) throw run_error("a step needs at least 1 sample");
    const auto parts = training_parts(batch);
    std::vector<Replica::Step> steps(replicas_.size());
    const auto start = std::chrono::steady_clock::now();
    begin_phases(replicas_, inputs.waited_since.value_or(start), start);
    on_each([&](int rank) {
      steps[static_cast<size_t>(rank)] =
          replica(rank).train(parts[static_cast<size_t>(rank)], inputs, samples);
    });
    if (options_.measured_shares) record_speed(parts, steps);
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
      const auto values = read(parameter.name);
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

  Shape shape(const std::string& name) const { return telar::state_shape(program_, name); }

  std::vector<float> read(const std::string& name) const { return canonical(state_.find(name), shape(name)); }

  std::vector<float> read_gradient(const std::string& parameter) const {
    const ArenaLayout::Slot& slot = state_.arena.find(parameter);
    // After a step each replica holds the sum of what it updates alone: put them together.
    Buffer whole(slot.layout.bytes);
    for (const auto& replica : replicas_) {
      for (const auto& [begin, end] : replica->owned_ranges()) {
        const size_t from = std::max(begin, slot.offset);
        const size_t to = std::min(end, slot.offset + slot.layout.bytes);
        if (from < to)
          std::copy_n(replica->gradients() + from, to - from, whole.data() + (from - slot.offset));
      }
    }
    return canonical({whole.data(), &slot}, shape(parameter));
  }

  void write(const std::string& name, std::span<const float> values) {
    if (static_cast<int64_t>(values.size()) != shape(name).elements()) {
      throw user_error("'{}' has the shape {}, but {} values were given", name, shape(name).str(),
                       values.size());
    }
    const SharedState::Place place = state_.find(name);
    on_first([&] {
      replicas_[0]->device().write(place.slot->layout, values, const_cast<std::byte*>(place.memory));
    });
  }

  SessionMemory memory() const {
    SessionMemory memory;
    const size_t gradients = staged() ? 1 : replicas_.size();
    memory.parameter_bytes = state_.arena.bytes * (1 + state_.states.size() + gradients);
    for (const auto& replica : replicas_) memory.activation_bytes += replica->activation_bytes();
    return memory;
  }

  const Program& program() const { return program_; }
  bool staged() const { return program_.micro_batches > 0; }
  std::optional<Bubble> bubble() const { return staged() ? bubble_.bubble() : std::nullopt; }
  int processes() const { return options_.processes == nullptr ? 1 : options_.processes->size(); }
  std::vector<double> shares() const { return shares_.shares(); }
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
        team_.fail(rank);
        exchange_.stop();
      });
    } catch (...) {
      team_.reset();
      exchange_.reset();
      throw;
    }
  }

  void on_first(const std::function<void()>& work) {
    on_each([&](int rank) {
      if (rank == 0) work();
    });
  }

  std::vector<float> canonical(const SharedState::Place& place, const Shape& shape) const {
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    replicas_[0]->device().read(place.slot->layout, place.memory, values);
    return values;
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
    state_.allocate(program_, wanted_layouts());
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
                       batch.sample == nullptr ? nullptr : batch.sample + begin});
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

  void record_speed(const std::vector<BatchView>& parts, const std::vector<Replica::Step>& steps) {
    std::vector<int64_t> samples;
    std::vector<double> seconds;
    for (size_t i = 0; i < parts.size(); ++i) {
      samples.push_back(parts[i].size);
      seconds.push_back(steps[i].compute_seconds);
    }
    shares_.record(samples, seconds);
  }

  Program program_;
  SessionOptions options_;
  MeasuredShares shares_;
  ThreadTeam team_;
  ReplicaThreads threads_;
  size_t x_bytes_;
  size_t label_bytes_;
  StageExchange exchange_;  ///< of a pipeline's stages
  BubbleMeter bubble_;
  std::vector<std::unique_ptr<Group>> joined_;  ///< the replicas as members of those of all processes
  std::vector<std::unique_ptr<Replica>> replicas_;
  SharedState state_;
};

Session::Session(Program program, const Cluster& cluster, SessionOptions options)
    : impl_(std::make_unique<Impl>(std::move(program), cluster, std::move(options))) {}
Session::~Session() = default;

void Session::initialise() { impl_->initialise(); }
StepResult Session::train(const BatchView& batch, const StepInputs& inputs) {
  return impl_->train(batch, inputs);
}
void Session::pull() { impl_->pull(); }
StepResult Session::flush(const StepInputs& inputs) { return impl_->flush(inputs); }
std::vector<double> Session::evaluate(const BatchView& batch) { return impl_->evaluate(batch); }
std::vector<float> Session::predict(const BatchView& batch) { return impl_->predict(batch); }
const std::vector<std::string>& Session::metric_names() const { return impl_->program().metrics; }
std::vector<std::string> Session::state_names() const { return telar::state_names(impl_->program()); }
Shape Session::state_shape(const std::string& name) const {
  return telar::state_shape(impl_->program(), name);
}
std::vector<float> Session::read_state(const std::string& name) const { return impl_->read(name); }
void Session::write_state(const std::string& name, std::span<const float> values) {
  impl_->write(name, values);
}
std::vector<float> Session::read_gradient(const std::string& parameter) const {
  return impl_->read_gradient(parameter);
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
