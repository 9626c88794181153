#include "telar/runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>

#include "telar/core/error.h"
#include "telar/device/cuda.h"
#include "telar/nn/initialise.h"
#include "telar/runtime/batch_parts.h"
#include "telar/runtime/piece_owners.h"
#include "telar/runtime/pipeline_exchanges.h"
#include "telar/runtime/replica.h"
#include "telar/runtime/replica_groups.h"
#include "telar/runtime/replica_threads.h"
#include "telar/runtime/replica_times.h"
#include "telar/runtime/shares.h"
#include "telar/runtime/state_tensors.h"
#include "telar/runtime/step_speeds.h"

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
  double threads = 0;
  double gpus = 0;
  for (const DeviceSpec& device : cluster.devices)
    (cuda_number(device.kind) ? gpus : threads) += device.threads;
  // Until speeds are measured, CPUs beside GPUs get a sixteenth of the batch.
  std::vector<double> shares;
  for (const DeviceSpec& device : cluster.devices) {
    const bool is_gpu = cuda_number(device.kind).has_value();
    shares.push_back(!by_threads ? 1 : is_gpu && threads > 0 ? 15 * threads / gpus : device.threads);
  }
  return shares;
}

std::unique_ptr<Device> make_device(const DeviceSpec& spec) {
  if (const auto gpu = cuda_number(spec.kind)) return make_cuda_device(*gpu);
  if (spec.kind != "cpu") throw user_error("unknown device '{}'; it is cpu or cuda:N", spec.kind);
  return make_cpu_device(spec.threads, spec.cores);
}

std::vector<bool> on_gpus(const Cluster& cluster) {
  std::vector<bool> on_gpu;
  for (const DeviceSpec& device : cluster.devices) on_gpu.push_back(cuda_number(device.kind).has_value());
  return on_gpu;
}

/// Passes on each text once, and only one at a time.
std::function<void(const std::string&)> warn_once(std::function<void(const std::string&)> tell) {
  if (!tell) return {};
  struct Warned {
    std::mutex mutex;
    std::set<std::string> texts;
  };
  return [tell = std::move(tell), warned = std::make_shared<Warned>()](const std::string& text) {
    const std::lock_guard guard(warned->mutex);
    if (warned->texts.insert(text).second) tell(text);
  };
}

/// In the order of a step: forward through the workers (the stages of a pipeline), then back.
std::string first_of(const std::vector<NonFinite>& found) {
  for (const NonFinite& worker : found)
    if (!worker.forward.empty()) return worker.forward;
  const auto last = std::find_if(found.rbegin(), found.rend(),
                                 [](const NonFinite& worker) { return !worker.backward.empty(); });
  return last == found.rend() ? "" : last->backward;
}

/// What the workers of all processes have found, in their order.
std::vector<NonFinite> found_by_all(const std::vector<NonFinite>& found, Processes& processes) {
  std::string forward;
  std::string backward;
  for (const NonFinite& worker : found) {
    forward += worker.forward + "\n";
    backward += worker.backward + "\n";
  }
  const auto lines_of = [&](const std::string& text) {
    std::vector<std::string> lines;
    for (const std::string& of_process : processes.gather(text)) {
      std::istringstream stream(of_process);
      for (std::string line; std::getline(stream, line);) lines.push_back(line);
    }
    return lines;
  };
  const std::vector<std::string> forwards = lines_of(forward);
  const std::vector<std::string> backwards = lines_of(backward);
  std::vector<NonFinite> all;
  for (size_t w = 0; w < forwards.size(); ++w) all.push_back({forwards[w], backwards[w]});
  return all;
}

/// `texts`: SharedState::layout_text() of each process. Throws Error (user) if they sum what does not lie
/// alike.
void require_same_layouts(const std::vector<std::string>& texts) {
  std::map<std::string, std::pair<std::string, size_t>> layouts;  // by name: the layout, and who has it
  for (size_t p = 0; p < texts.size(); ++p) {
    std::istringstream lines(texts[p]);
    for (std::string name, layout; std::getline(lines, name, '\t') && std::getline(lines, layout);) {
      const auto& [first, rank] = layouts.try_emplace(name, layout, p).first->second;
      if (first != layout)
        throw user_error(
            "rank {} differs from rank {} in the layout of the parameters ('{}'); all hosts of a run need the same kind of CPU",
            p, rank, name);
    }
  }
}

const BatchView& part(const std::vector<BatchView>& parts, int rank) {
  return parts[static_cast<size_t>(rank)];
}

}  // namespace

/// The parts of a session, and how its replicas work together.
class Session::Impl {
 public:
  Impl(Program program, const Cluster& cluster, SessionOptions options)
      : program_(std::move(program)),
        options_(std::move(options)),
        speeds_(starting_shares(options_, cluster, options_.measured_shares), options_.measured_shares,
                on_gpus(cluster),
                {.micro_batches = program_.micro_batches, .stages = program_.mesh.size(kStageAxis)},
                program_.least.part),
        process_(cluster.process),
        groups_(program_, process_, options_.processes),
        threads_(static_cast<int>(program_.mesh.of_process())),
        inputs_(sample_inputs(program_.evaluation)),
        of_prediction_(sample_inputs(program_.prediction)),
        pipelines_(program_, process_, inputs_) {
    if (std::ssize(cluster.devices) != program_.mesh.of_process())
      throw run_error("the program has {} workers in a process, but there are {} devices",
                      program_.mesh.of_process(), cluster.devices.size());
    options_.warn = warn_once(std::move(options_.warn));
    const int64_t first_share = shares_of(program_, process_).begin;
    for (int64_t w = 0; w < program_.mesh.of_process(); ++w)
      share_of_.push_back(static_cast<size_t>(share_of(program_, number_of(0) + w) - first_share));
    std::vector<std::unique_ptr<Device>> devices;
    for (const DeviceSpec& device : cluster.devices) devices.push_back(make_device(device));
    on_each([&](int rank) { devices[static_cast<size_t>(rank)]->enter(); });
    join_gpus(devices);
    make_replicas(std::move(devices));
    allocate();
    on_each([&](int rank) { replica(rank).attach(state_); });
    owners_ = piece_owners(program_);
    ByteRanges parts;
    for (const auto& replica : replicas_)
      parts.insert(parts.end(), replica->owned_ranges().begin(), replica->owned_ranges().end());
    if (updates_parts()) part_owners_ = part_owners(parts, options_.processes);
  }

  /// Whether optimizer state is kept only where it is updated.
  bool updates_parts() const { return state_.memories.front()->update == Update::of_all; }
  /// Session::state_is_divided().
  bool divided() const {
    return options_.processes != nullptr && (!owners_.empty() || updates_parts() || trains_alone(program_));
  }
  /// Among all workers, of a replica of this process.
  int64_t number_of(size_t replica) const {
    return program_.mesh.first_of(process_) + static_cast<int64_t>(replica);
  }
  int processes() const { return options_.processes == nullptr ? 1 : options_.processes->size(); }
  StateTensors tensors() const {
    return {program_, state_, replicas_, owners_, part_owners_, options_.processes};
  }
  Replica& replica(int rank) { return *replicas_[static_cast<size_t>(rank)]; }
  void clear_optimizer_state() const {
    for (const auto& memory : state_.memories)
      for (const auto& state : memory->states) memory->device->zero(state->data(), state->size());
  }

  /// If `body` throws, resets the groups and the exchange between stages.
  template <typename Body>
  auto guarded(const Body& body) {
    try {
      return body();
    } catch (...) {
      groups_.reset();
      pipelines_.reset();
      throw;
    }
  }

  void on_each(const std::function<void(int)>& work) {
    guarded([&] {
      threads_.run(work, [this](int rank) {
        groups_.fail(rank);
        pipelines_.stop();
      });
    });
  }

  /// Returns the results of work(rank) for all replicas.
  template <typename Work>
  auto from_each(const Work& work) {
    std::vector<decltype(work(0))> results(replicas_.size());
    on_each([&](int rank) { results[static_cast<size_t>(rank)] = work(rank); });
    return results;
  }

  void on_first(const std::function<void()>& work) {
    on_each([&](int rank) {
      if (rank == 0) work();
    });
  }

  /// The samples of a batch for each worker: those of its share. Workers with the same share, such as the
  /// stages of a pipeline, have the same samples.
  std::vector<BatchView> split(const BatchView& batch) {
    auto shares = split_batch(batch, inputs_, weights(), program_.least.part);
    for (size_t s = 0; s < shares.size(); ++s) {  // GPUs need not know whether there is a NaN or infinity
      const auto worker = std::ranges::find(share_of_, s) - share_of_.begin();
      if (replicas_[static_cast<size_t>(worker)]->device().in_host_memory())
        shares[s].non_finite = !non_finite_parameters_.empty() || has_non_finite(shares[s], inputs_);
    }
    std::vector<BatchView> parts;
    for (const size_t share : share_of_) parts.push_back(shares[share]);
    set_rows(parts, batch);
    return parts;
  }

  /// The sizes of the shares of this process, in proportion: by the speed of the workers, if each has one.
  std::vector<double> weights() const {
    const size_t shares = std::ranges::max(share_of_) + 1;
    return shares == share_of_.size() ? speeds_.shares() : std::vector<double>(shares, 1.0);
  }

  /// Computes the parts; again, if NaN or infinities may have been hidden, with kernels that hide none. All
  /// processes that compute the parts together must answer `suspicious` alike.
  template <typename Compute, typename Suspicious>
  auto without_hiding(std::vector<BatchView>& parts, const Compute& compute, const Suspicious& suspicious) {
    auto computed = compute();
    if (!suspicious(computed)) return computed;
    for (BatchView& part : parts) part.non_finite = true;
    return compute();
  }

  /// Throws Error (user) if a worker would take statistics of fewer samples than Program::least.
  void require_least(const BatchView& batch, std::span<const BatchView> parts) const {
    const LeastSamples& least = program_.least;
    const int64_t all = batch.all > 0 || processes() > 1 ? batch.all : batch.size;
    const bool too_few = all > 0 && all < least.batch;
    if (!too_few && std::ranges::none_of(parts, [&](const BatchView& part) {
          return part.size > 0 && part.size < least.part;
        }))
      return;
    throw user_error(
        "layer '{}' normalises over the samples of a batch, with one value of each, so it needs at least {}; this batch has 1 {}",
        least.layer, least.batch, too_few ? "sample" : "for one of the workers");
  }

  void set_rows(std::vector<BatchView>& parts, const BatchView& batch) {
    if (program_.batch_group.empty()) return;
    const int64_t samples = batch.all > 0 ? batch.all : batch.size;
    if (std::exchange(rows_samples_, samples) != samples) rows_ = rows_of(samples);
    for (size_t w = 0; w < parts.size(); ++w) parts[w].rows = rows_[w];
  }

  /// For each worker, the samples of the members of the group with which it computes a batch of `samples`.
  std::vector<std::vector<int64_t>> rows_of(int64_t samples) const {
    // All stages of a pipeline compute the same share of a batch. Without stages, each worker has its own.
    const BatchShare share = shares_of(program_, process_);
    const std::vector<int64_t> of_shares = samples_of_shares(samples, share.of / (share.end - share.begin),
                                                             share.end - share.begin, program_.least.part);
    std::vector<std::vector<int64_t>> rows(replicas_.size());
    for (size_t w = 0; w < rows.size(); ++w)
      for (const int member : members_of(program_, program_.batch_group, number_of(w)))
        rows[w].push_back(of_shares[static_cast<size_t>(share_of(program_, member))]);
    for (std::vector<int64_t>& of_group : rows)  // a group without samples computes nothing
      if (std::ranges::all_of(of_group, [](int64_t part) { return part == 0; })) of_group.clear();
    return rows;
  }

  bool train_alone(int64_t step) const {
    const WorkerProgram& kind = program_.worker(number_of(0));
    return trains_alone(schedule_in(kind, phase_at(kind, step)));
  }

  /// Where workers train alone: whether their memory has their own parameters, or the mean.
  enum class View : uint8_t { own, mean };
  void show(View view) {
    if (view == view_ || (view == View::mean && !apart_)) return;
    on_each([&](int rank) { view == View::mean ? replica(rank).show_mean() : replica(rank).show_own(); });
    view_ = view;
  }

  /// Adds up the metrics of the steps that processes have made apart, and are not known yet.
  void exchange_results() {
    std::string own;
    for (size_t s = done_.size() - unknown_; s < done_.size(); ++s) {
      own += done_[s].finite ? "1" : "0";
      for (const double metric : done_[s].metrics) own += fmt::format(" {:a}", metric);
      own += "\n";
    }
    const std::vector<std::string> of_all = options_.processes->gather(own);
    for (size_t s = done_.size() - unknown_; s < done_.size(); ++s) std::ranges::fill(done_[s].metrics, 0.0);
    for (const std::string& text : of_all) {
      std::istringstream words(text);
      for (size_t s = done_.size() - unknown_; s < done_.size(); ++s) {
        std::string word;
        words >> word;
        done_[s].finite = done_[s].finite && word == "1";
        for (double& metric : done_[s].metrics) {
          words >> word;
          metric += std::strtod(word.c_str(), nullptr);
        }
      }
    }
    unknown_ = 0;
  }

  /// A step that was made; its metrics are known at once unless processes have made it apart.
  void add(StepResult result, bool alone, bool averaged) {
    constexpr size_t kMostUnknown = 64;
    done_.push_back(std::move(result));
    returned_ = false;
    if (!alone || options_.processes == nullptr) return;
    ++unknown_;
    if (averaged || unknown_ == kMostUnknown) exchange_results();
  }

  /// Later ones are returned one for each step that began meanwhile.
  std::optional<StepResult> next_result(bool wait) {
    if (!wait && (returned_ || done_.size() == unknown_)) return std::nullopt;
    if (done_.size() == unknown_) exchange_results();
    StepResult result = std::move(done_.front());
    done_.pop_front();
    returned_ = true;
    return result;
  }

  bool hides_in_prediction() {
    const bool here =
        std::ranges::any_of(replicas_, [](const auto& replica) { return replica->is_suspicious(); });
    const bool together =
        options_.processes != nullptr && state_.memories.front()->update != Update::of_process;
    if (!together) return here;
    return std::ranges::count(options_.processes->gather(here ? "hides" : ""), "hides") > 0;
  }

  StepResult train(const BatchView& batch, const StepInputs& inputs, int64_t samples) {
    show(View::own);
    auto parts = split(batch);
    require_least(batch, parts);
    const bool alone = train_alone(inputs.step);
    const double for_each = static_cast<double>(samples) /
                            static_cast<double>(std::max<int64_t>(1, batch.all > 0 ? batch.all : batch.size));
    const auto start = std::chrono::steady_clock::now();
    begin_phases(replicas_, inputs.waited_since.value_or(start), start);
    bool repeats = false;
    const auto make = [&] {
      return from_each([&](int rank) {
        const BatchView& own = part(parts, rank);
        const double of_mean =
            alone ? static_cast<double>(own.size) * for_each : static_cast<double>(samples);
        return replica(rank).train(own, inputs, of_mean, repeats);
      });
    };
    const auto steps = alone ? make() : without_hiding(parts, make, [&](const std::vector<WorkerStep>& done) {
      repeats = !batch.again && !std::isfinite(done[0].result.metrics.front());
      return repeats;
    });
    speeds_.record(parts, steps, start, std::chrono::steady_clock::now());
    StepResult result = steps[0].result;
    for (const WorkerStep& step : steps) result.finite = result.finite && step.result.finite;
    for (size_t w = 1; alone && w < steps.size(); ++w)
      std::ranges::transform(result.metrics, steps[w].result.metrics, result.metrics.begin(), std::plus());
    apart_ = alone && !steps[0].averaged;
    if (!result.finite && std::isfinite(result.metrics.front()))  // the update was made
      for (const ParameterInfo& parameter : program_.parameters)
        non_finite_parameters_.insert(parameter.name);
    result.communication = communication_of(steps);
    result.phases = end_phases(replicas_, result.communication);
    return result;
  }

  Program program_;
  SessionOptions options_;
  StepSpeeds speeds_;
  int64_t process_;
  ReplicaGroups groups_;
  ReplicaThreads threads_;
  SampleInputs inputs_;
  SampleInputs of_prediction_;
  PipelineExchanges pipelines_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  SharedState state_;
  PieceOwners owners_;
  PartOwners part_owners_;
  /// Of each worker, the number of its share of a batch among those of this process.
  std::vector<size_t> share_of_;
  std::vector<std::vector<int64_t>> rows_;       ///< of the current batch, for each worker
  int64_t rows_samples_ = -1;                    ///< for which rows_ are
  std::set<std::string> non_finite_parameters_;  ///< that may have a NaN or infinity
  std::deque<StepResult> done_;                  ///< of steps that begin() has completed
  size_t unknown_ = 0;     ///< of these, the last ones, whose metrics are only those of this process
  bool returned_ = false;  ///< whether a result was returned since the last step began
  bool apart_ = false;     ///< whether workers have trained alone since their parameters were averaged
  View view_ = View::own;

 private:
  void join_gpus(const std::vector<std::unique_ptr<Device>>& devices) {
    const std::string why_not =
        groups_.join_gpus(devices, options_.gpu_exchange, [this](const auto& work) { on_each(work); });
    if (!why_not.empty() && options_.say)
      options_.say(
          fmt::format("gradients are exchanged between GPUs through the host's memory: {}", why_not));
  }

  void make_replicas(std::vector<std::unique_ptr<Device>> devices) {
    for (size_t w = 0; w < devices.size(); ++w) {
      WorkerOptions worker{.group = groups_.of(static_cast<int>(w)),
                           .groups = groups_.named(static_cast<int>(w)),
                           .store = options_.store,
                           .stages = pipelines_.of(w),
                           .processes = options_.processes,
                           .seed = options_.seed,
                           .tf32 = options_.tf32,
                           .warn = options_.warn};
      replicas_.push_back(
          std::make_unique<Replica>(program_, number_of(w), std::move(devices[w]), std::move(worker)));
    }
  }

  /// The layouts of the parameters, for each worker. The first replica's device chooses them for replicas
  /// that share a memory; each stage chooses those of its own, and so does each worker with a memory of its
  /// own, for equal numbers of samples, so that what all keep whole lies in memory alike.
  std::vector<SharedState::Layouts> wanted_layouts() {
    const BatchShare share = shares_of(program_, process_);
    const int64_t usual = program_.evaluation.batch() * (share.end - share.begin) / share.of;
    const int64_t batch = std::max<int64_t>(1, options_.typical_batch > 0 ? options_.typical_batch : usual);
    const int64_t part = std::max<int64_t>(1, split_by_shares(batch, weights(), program_.least.part)[0]);
    const bool shared = program_.worker(number_of(0)).home == StateHome::of_process;
    std::vector<SharedState::Layouts> wanted(replicas_.size());
    on_each([&](int rank) {
      if (shared && rank > 0) return;
      const auto w = static_cast<size_t>(rank);
      const std::vector<int64_t> rows(
          program_.batch_group.empty() ? 0 : members_of(program_, program_.batch_group, number_of(w)).size(),
          part);
      const auto layouts = replica(rank).wanted_layouts(part, rows);
      wanted[w].insert(layouts.begin(), layouts.end());
    });
    return wanted;
  }

  void allocate() {
    std::vector<const Device*> devices;
    std::vector<const Group*> groups;
    for (size_t w = 0; w < replicas_.size(); ++w) {
      devices.push_back(&replicas_[w]->device());
      groups.push_back(groups_.of(static_cast<int>(w)));
    }
    state_.allocate(program_, number_of(0), devices, wanted_layouts(), groups);
    if (options_.processes == nullptr) return;
    require_same_layouts(options_.processes->gather(state_.layout_text()));
  }
};

Session::Session(Program program, const Cluster& cluster, SessionOptions options)
    : impl_(std::make_unique<Impl>(std::move(program), cluster, std::move(options))) {
  initialise();
}
Session::~Session() = default;

void Session::initialise() {
  for (const ParameterInfo& parameter : impl_->program_.parameters) {
    std::vector<float> values(static_cast<size_t>(parameter.shape.elements()));
    telar::initialise(parameter, impl_->options_.seed, values);
    write_state(parameter.name, values);
  }
  impl_->clear_optimizer_state();
}

void Session::remake(Program program, const Cluster& cluster) {
  if (impl_->replica(0).can_run_ahead())
    throw run_error("a session on GPUs cannot go on with other processes");
  impl_ = std::make_unique<Impl>(std::move(program), cluster, impl_->options_);
  impl_->clear_optimizer_state();
}

StepResult Session::train(const BatchView& batch, const StepInputs& inputs) {
  begin(batch, inputs);
  return *finished(true);
}

void Session::begin(const BatchView& batch, const StepInputs& inputs) {
  const int64_t samples = inputs.samples > 0 ? inputs.samples : batch.size;
  if (samples < 1) throw run_error("a step needs at least 1 sample");
  require_inputs(batch, impl_->inputs_);
  if (impl_->replica(0).can_run_ahead()) {
    const auto parts = impl_->split(batch);
    impl_->require_least(batch, parts);
    impl_->on_each([&](int rank) {
      impl_->replica(rank).begin(part(parts, rank), inputs, static_cast<double>(samples));
    });
  } else {
    StepResult result = impl_->train(batch, inputs, samples);
    impl_->add(std::move(result), impl_->train_alone(inputs.step), !impl_->apart_);
  }
}

std::optional<StepResult> Session::finished(bool wait) {
  if (!impl_->done_.empty()) return impl_->next_result(wait);
  // Different processes see a step's end at different times, but they must agree on how many steps they
  // begin.
  const bool alone = impl_->options_.processes == nullptr;
  if (!wait && !impl_->guarded([&] { return impl_->replica(0).result_is_due(alone); })) return std::nullopt;
  auto results = impl_->from_each([&](int rank) { return impl_->replica(rank).finished(); });
  for (const StepResult& result : results) results[0].finite = results[0].finite && result.finite;
  return results[0];
}

void Session::pull() {
  impl_->on_first([this] { impl_->replica(0).pull(); });
}

std::vector<double> Session::evaluate(const BatchView& batch) {
  require_inputs(batch, impl_->inputs_);
  impl_->show(Impl::View::mean);
  auto parts = impl_->split(batch);
  return impl_->without_hiding(
      parts,
      [&] {
        return impl_->from_each(
            [&](int rank) { return impl_->replica(rank).evaluate(part(parts, rank)); })[0];
      },
      [](const std::vector<double>& sums) { return !std::isfinite(sums.front()); });
}

std::vector<float> Session::predict(const BatchView& batch) {
  require_inputs(batch, impl_->of_prediction_);
  impl_->show(Impl::View::mean);
  auto parts = impl_->split(batch);
  const auto outputs = impl_->without_hiding(
      parts,
      [&] {
        return impl_->from_each([&](int rank) { return impl_->replica(rank).predict(part(parts, rank)); });
      },
      [&](const auto& /*outputs*/) { return impl_->hides_in_prediction(); });
  std::vector<float> all;
  for (const auto& output : outputs) all.insert(all.end(), output.begin(), output.end());
  return all;
}

std::string Session::find_non_finite(const BatchView& batch, const StepInputs& inputs) {
  for (const ParameterInfo& parameter : impl_->program_.parameters) {
    const auto values = impl_->tensors().read(parameter.name);
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
      return fmt::format("parameter '{}' (from an earlier update)", parameter.name);
    }
  }
  auto parts = impl_->split(batch);
  for (BatchView& part : parts) part.non_finite = true;  // its first NaN, not the first that is not hidden
  auto found = impl_->from_each(
      [&](int rank) { return impl_->replica(rank).find_non_finite(part(parts, rank), inputs); });
  if (impl_->options_.processes != nullptr) found = found_by_all(found, *impl_->options_.processes);
  const std::string place = first_of(found);
  return place.empty() ? "the sum of the losses" : place;
}

std::vector<OperationTime> Session::profile(const BatchView& batch, const StepInputs& inputs) {
  const auto parts = impl_->split(batch);
  const auto times =
      impl_->from_each([&](int rank) { return impl_->replica(rank).profile(part(parts, rank), inputs); });
  std::vector<OperationTime> all = times[0];
  for (size_t s = 1; impl_->program_.mesh.size(kStageAxis) > 1 && s < times.size(); ++s)
    all.insert(all.end(), times[s].begin(), times[s].end());
  return all;
}

void Session::record_phases(int64_t steps) {
  for (const auto& replica : impl_->replicas_) replica->record(steps);
}

std::vector<TraceRow> Session::trace(std::chrono::steady_clock::time_point zero) const {
  return trace_of(impl_->replicas_, program().micro_batches > 0 ? "stage" : "replica", zero);
}

void Session::write_state(const StateName& name, std::span<const float> values) {
  const Shape shape = impl_->tensors().shape(name);
  if (static_cast<int64_t>(values.size()) != shape.elements()) {
    throw user_error("'{}' has the shape {}, but {} values were given", name.text(), shape.str(),
                     values.size());
  }
  if (name.is_parameter()) {
    const bool finite = std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
    if (finite) impl_->non_finite_parameters_.erase(name.parameter);
    if (!finite) impl_->non_finite_parameters_.insert(name.parameter);
  }
  impl_->show(Impl::View::own);
  if (name.worker) impl_->apart_ = true;
  impl_->on_first([&] { impl_->tensors().write(name, values); });
}

SessionMemory Session::memory() const {
  SessionMemory memory;
  for (const auto& one : impl_->state_.memories) {
    memory.parameter_bytes += one->arena.bytes;
    for (const auto& state : one->states) memory.optimizer_bytes += state->size();
  }
  for (const auto& replica : impl_->replicas_) memory.gradient_bytes += replica->home().arena.bytes;
  memory.parameter_bytes += memory.gradient_bytes + memory.optimizer_bytes;
  for (const auto& replica : impl_->replicas_) memory.activation_bytes += replica->activation_bytes();
  return memory;
}

std::vector<std::string> Session::device_names() const {
  std::vector<std::string> names;
  for (const auto& replica : impl_->replicas_) names.push_back(replica->device().name());
  return names;
}

const Program& Session::program() const { return impl_->program_; }
std::string Session::strategy() const { return program().strategy; }
const std::vector<std::string>& Session::metric_names() const { return program().metrics; }
std::vector<StateName> Session::state_names() const { return telar::state_names(program()); }
bool Session::state_is_divided() const { return impl_->divided(); }
bool Session::is_divided(const StateName& name) const {
  if (!state_is_divided()) return false;
  return trains_alone(program()) || impl_->owners_.contains(name.parameter) ||
         (!name.is_parameter() && impl_->updates_parts());
}
Shape Session::state_shape(const StateName& name) const { return telar::state_shape(program(), name); }
std::vector<StateName> Session::states_of_workers() const {
  std::vector<StateName> names;
  if (!trains_alone(program())) return names;
  for (int64_t worker = 0; worker < program().mesh.workers(); ++worker)
    for (StateName name : state_names()) {
      if (name.is_parameter() && !impl_->apart_) continue;
      name.worker = worker;
      names.push_back(std::move(name));
    }
  return names;
}
std::vector<float> Session::read_state(const StateName& name) const {
  if (name.is_parameter()) impl_->show(name.worker ? Impl::View::own : Impl::View::mean);
  return impl_->tensors().read(name);
}
std::vector<float> Session::read_gradient(const std::string& parameter) const {
  return impl_->tensors().read_gradient(parameter);
}
int Session::replicas() const { return static_cast<int>(shares_of(program())); }
bool Session::exchanges_by_nccl() const { return impl_->groups_.sum_by_nccl(); }
std::vector<double> Session::shares() const { return impl_->speeds_.shares(); }
std::optional<MixedSpeed> Session::mixed_speed() const { return impl_->speeds_.mixed(); }
std::optional<Bubble> Session::bubble() const {
  std::optional<Bubble> bubble = impl_->speeds_.bubble();
  Processes* processes = impl_->options_.processes;
  if (!bubble || processes == nullptr) return bubble;
  double sum = 0;
  for (const std::string& measured : processes->gather(fmt::format("{}", bubble->measured)))
    sum += std::stod(measured);
  bubble->measured = sum / processes->size();
  return bubble;
}

std::vector<BatchTensor> Session::inputs() const {
  std::vector<BatchTensor> inputs;
  for (const auto& [name, input] : impl_->inputs_) inputs.push_back(input);
  return inputs;
}

Shape Session::prediction_shape() const {
  const Graph& graph = program().prediction;
  std::vector<int64_t> dims = graph.value(graph.output("prediction")).type.shape.dims();
  dims.erase(dims.begin());
  return Shape(dims);
}

}  // namespace telar
