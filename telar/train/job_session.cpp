#include "telar/train/job_session.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "telar/core/error.h"
#include "telar/core/option.h"
#include "telar/device/cuda.h"
#include "telar/observe/process.h"
#include "telar/runtime/operation_costs.h"
#include "telar/strategy/server_side.h"
#include "telar/train/job_devices.h"
#include "telar/train/job_loader.h"
#include "telar/train/job_model.h"
#include "telar/train/job_model_file.h"
#include "telar/train/job_strategy.h"
#include "telar/train/job_workers.h"
#include "telar/train/work_division.h"

namespace telar {

namespace {

Loss loss_of(const Job& job, const SampleSpec& spec) {
  const bool classes = spec.classes > 0;
  const std::string& name = job.loss.name;
  if (name == "cross_entropy" && !classes) {
    throw user_error(
        "loss is cross_entropy, but the labels are numbers; set data.classes, or choose mean_squared_error or, for labels that are 0 or 1, binary_cross_entropy");
  }
  if (!classes && (job.loss.balanced || !job.loss.class_weights.empty()))
    throw user_error("loss.{} is given, but the labels are numbers, not classes; leave it out",
                     job.loss.balanced ? "balanced" : "class_weights");
  if (name == "auto") return classes ? Loss::cross_entropy : Loss::mean_squared_error;
  if (name == "cross_entropy") return Loss::cross_entropy;
  if (name == "focal") return classes ? Loss::focal : Loss::binary_focal;
  if (classes)
    throw user_error(
        "loss is {}, but the labels are {} classes; choose cross_entropy{}", name, spec.classes,
        name == "binary_cross_entropy" ? ", or set data.classes to 0 for labels that are 0 or 1" : "");
  return name == "l1"                     ? Loss::l1
         : name == "huber"                ? Loss::huber
         : name == "binary_cross_entropy" ? Loss::binary_cross_entropy
                                          : Loss::mean_squared_error;
}

Optimizer optimizer_of(const OptimizerJob& job) {
  if (job.name == "sgd") {
    return SgdOptions{.momentum = job.momentum, .nesterov = job.nesterov, .weight_decay = job.weight_decay};
  }
  if (job.name == "rmsprop") {
    return RmspropOptions{.alpha = job.alpha,
                          .epsilon = job.epsilon,
                          .momentum = job.momentum,
                          .weight_decay = job.weight_decay};
  }
  if (job.name == "adagrad") {
    return AdagradOptions{.lr_decay = job.lr_decay, .epsilon = job.epsilon, .weight_decay = job.weight_decay};
  }
  return AdamOptions{.beta1 = job.beta1,
                     .beta2 = job.beta2,
                     .epsilon = job.epsilon,
                     .weight_decay = job.weight_decay,
                     .decoupled = job.name == "adamw"};
}

GpuExchange exchange_of(const std::string& name) {
  if (name == "nccl") return GpuExchange::nccl;
  return name == "host" ? GpuExchange::host : GpuExchange::automatic;
}

/// The threads that the job sets for a replica; 0: not set.
int threads_given(const StrategyJob& strategy, size_t replica) {
  return static_cast<int>(strategy.threads.size() == 1 ? strategy.threads[0] : strategy.threads[replica]);
}

/// The threads of each CPU replica for which the job sets none: the threads that this process may use,
/// divided.
int divided_threads(const std::vector<DeviceSpec>& devices, const Processes* processes) {
  int64_t left = available_threads(processes == nullptr ? 1 : processes->on_this_host());
  int64_t sharing = 0;
  for (const DeviceSpec& device : devices) {
    sharing += device.threads == 0 ? 1 : 0;
    left -= device.threads;  // a GPU has one, which feeds it
  }
  return static_cast<int>(std::max<int64_t>(1, left / std::max<int64_t>(1, sharing)));
}

/// The threads of the workers of all processes. All of them call it.
std::vector<int> threads_of_all(const Cluster& cluster, Processes& processes) {
  std::string mine;
  for (const DeviceSpec& device : cluster.devices) mine += fmt::format("{} ", device.threads);
  std::vector<int> all;
  for (const std::string& of_process : processes.gather(mine)) {
    std::istringstream numbers(of_process);
    for (int threads = 0; numbers >> threads;) all.push_back(threads);
  }
  return all;
}

/// `together`: null unless the processes run.
Cluster cluster_of(const Job& job, int processes, int process, const Processes* together) {
  Cluster cluster;
  if (uses_servers(job)) cluster.servers = static_cast<int>(job.strategy.servers);
  cluster.processes = processes;
  cluster.process = process;
  // A worker with parameter servers is a process of its own, with one device.
  const int64_t replicas = uses_servers(job) ? 1 : workers_of_process(job.strategy, cluster.processes);
  // Workers of all processes are numbered, and each may have a device and threads of its own.
  const int64_t first = workers_of(job.strategy).of_all_processes ? cluster.process * replicas : 0;
  const bool shares_gpus = together != nullptr && has_gpu(job.strategy);
  const auto gpus = shares_gpus ? static_cast<int>(find_cuda_gpus().gpus.size()) : 0;
  const int index = together == nullptr ? 0 : together->index_on_this_host();
  for (int64_t r = 0; r < replicas; ++r) {
    const auto replica = static_cast<size_t>(first + r);
    DeviceSpec device = device_named(device_of(job.strategy, replica), index, gpus);
    if (device.threads == 0) device.threads = threads_given(job.strategy, replica);
    cluster.devices.push_back(std::move(device));
  }
  const int divided = divided_threads(cluster.devices, together);
  for (DeviceSpec& device : cluster.devices)
    if (device.threads == 0) device.threads = divided;
  return cluster;
}

}  // namespace

Model job_model(const Job& job, const SampleSpec& spec) {
  if (!job.model.file.empty()) return model_of_file(job.model, spec);
  if (spec.classes == 0 && spec.labels.rank() != 1) {
    throw user_error(
        "the targets of one sample have the shape {}; only lists of numbers, [N, k], are supported",
        spec.labels.str());
  }
  return model_of_job(job.model, spec);
}

Figures job_figures(const Job& job, const SampleSpec& spec, const Session& session) {
  if (!job.model.file.empty()) return Figures(session.metric_names());
  return {job_step_options(job, spec), outputs_of(spec)};
}

StepOptions job_step_options(const Job& job, const SampleSpec& spec) {
  const auto& means = job.data.target_mean;
  if (!means.empty() && (spec.classes > 0 || std::ssize(means) != spec.labels.elements()))
    throw user_error("data.target_mean has {} numbers, but a label has {}; there must be one for each",
                     means.size(), spec.classes > 0 ? 0 : spec.labels.elements());
  StepOptions options;
  options.batch = job.training.batch;
  options.loss = loss_of(job, spec);
  options.loss_options = {.label_smoothing = job.training.label_smoothing,
                          .delta = job.loss.delta,
                          .gamma = job.loss.gamma,
                          .class_weights = job.loss.class_weights};
  options.optimizer = optimizer_of(job.optimizer);
  if (job.training.clip_norm > 0) options.clip_norm = job.training.clip_norm;
  options.top_k = job.training.top_k;
  options.metrics = job.training.metrics;
  options.target_mean = job.data.target_mean;
  options.precision = job.training.precision == "bf16" ? Precision::bf16 : Precision::f32;
  options.convolution = job.training.convolution == "winograd" ? Convolution::winograd : Convolution::direct;
  return options;
}

namespace {

/// The rule "PATTERN: FACTOR"; no factor if it is none.
std::pair<std::string, std::optional<double>> rate_of(const std::string& rule) {
  const size_t colon = rule.rfind(": ");
  if (colon == std::string::npos) return {rule, std::nullopt};
  double factor = 0;
  const char* end = rule.data() + rule.size();
  const auto [stop, error] = std::from_chars(rule.data() + colon + 2, end, factor);
  const bool good = error == std::errc() && stop == end && fits_f32(factor) && factor >= 0;
  return {rule.substr(0, colon), good ? std::optional(factor) : std::nullopt};
}

}  // namespace

TrainingStep job_step(const Job& job, const SampleSpec& spec) {
  const Model model = job_model(job, spec);
  StepOptions options = job_step_options(job, spec);
  for (const std::string& rule : job.optimizer.factors) {
    const std::vector<ParameterInfo> parameters = parameters_of(model);
    const auto [pattern, factor] = rate_of(rule);
    if (!factor)
      throw user_error(
          "optimizer.factors: '{}' must be PATTERN: FACTOR, as in 'layer*: 0.1', with a factor of at least 0{}",
          rule, kFitsF32);
    const std::vector<std::string> names = matching(pattern, parameters);
    if (names.empty())
      throw user_error("optimizer.factors: '{}' matches no layer or parameter{}", pattern,
                       nearest_layer(pattern, parameters));
    for (const std::string& name : names) options.own_optimizers[name] = {options.optimizer, *factor};
  }
  return make_training_step(model, options);
}

Schedule job_schedule(const Job& job, int64_t steps_per_epoch) {
  Schedule schedule;
  schedule.base = job.optimizer.learning_rate;
  schedule.warmup_from = job.schedule.warmup_rate;
  schedule.warmup_steps = steps_of_epochs(job.schedule.warmup_epochs, steps_per_epoch);
  schedule.total_steps = job.training.epochs * steps_per_epoch;
  if (job.schedule.name == "cosine") {
    schedule.shape = CosineSchedule{job.schedule.minimum};
  } else if (job.schedule.name == "plateau") {
    schedule.shape = PlateauSchedule{job.schedule.patience, job.schedule.gamma, job.schedule.minimum};
  } else if (job.schedule.name == "exponential") {
    schedule.shape = ExponentialSchedule{job.schedule.gamma, steps_per_epoch};
  } else if (job.schedule.name == "inverse_time") {
    schedule.shape = InverseTimeSchedule{job.schedule.decay, steps_per_epoch};
  } else if (job.schedule.name == "step") {
    StepSchedule steps;
    steps.every = steps_of_epochs(job.schedule.every_epochs, steps_per_epoch);
    steps.gamma = job.schedule.gamma;
    for (const double epochs : job.schedule.milestones) {
      steps.milestones.push_back(steps_of_epochs(epochs, steps_per_epoch));
    }
    schedule.shape = std::move(steps);
  }
  return schedule;
}

int64_t job_parts(const Job& job) { return workers_of(job.strategy).shares; }

Cluster job_cluster(const Job& job, const Processes* processes) {
  return processes == nullptr ? cluster_of(job, 1, 0, nullptr)
                              : cluster_of(job, processes->size(), processes->rank(), processes);
}

Program job_program(const Job& job, const SampleSpec& spec, Processes* processes, Costs costs) {
  const TrainingStep step = job_step(job, spec);
  Cluster cluster = job_cluster(job, processes);
  if (processes != nullptr) cluster.all_threads = threads_of_all(cluster, *processes);
  const Strategy strategy = make_strategy(job.strategy.name, job.strategy.options);
  return costs == Costs::measured ? measured_program(strategy, step, cluster, processes)
                                  : strategy.rewrite(step, cluster);
}

Program job_program(const Job& job, const SampleSpec& spec, int processes) {
  const TrainingStep step = job_step(job, spec);
  return make_strategy(job.strategy.name, job.strategy.options)
      .rewrite(step, cluster_of(job, processes, 0, nullptr));
}

std::unique_ptr<Session> job_session(const Job& job, const SampleSpec& spec, Processes* processes,
                                     const SessionTalk& talk) {
  SessionOptions options;
  options.processes = processes;
  options.say = talk.say;
  options.warn = talk.warn;
  options.seed = static_cast<uint64_t>(job.training.seed);
  if (workers_of(job.strategy).unequal) {
    const std::string& shares = job.strategy.shares.mode;
    options.measured_shares = shares == "measured" || (shares == "auto" && devices_differ(job.strategy));
    if (shares == "list") options.shares = job.strategy.shares.weights;
  }
  // A run on GPUs may be resumed on a machine without GPUs, where there is nothing to exchange between them.
  if (has_gpu(job.strategy)) options.gpu_exchange = exchange_of(job.strategy.gpu_exchange);
  options.tf32 = job.training.precision == "tf32";
  Program program = job_program(job, spec, processes);
  if (!program.stores.empty()) program = coordinator_program(std::move(program));
  return std::make_unique<Session>(std::move(program), job_cluster(job, processes), options);
}

std::unique_ptr<Session> job_worker_session(const Job& job, const SampleSpec& spec, const StoreAccess& store,
                                            const SessionTalk& talk) {
  SessionOptions options;
  options.say = talk.say;
  options.warn = talk.warn;
  options.seed = static_cast<uint64_t>(job.training.seed);
  options.store = &store;
  options.tf32 = job.training.precision == "tf32";
  options.typical_batch = std::max<int64_t>(1, job.training.batch / job_parts(job));
  return std::make_unique<Session>(job_program(job, spec), job_cluster(job), options);
}

std::optional<GivenValues> take_given_values(const Job& job, const SampleSpec& spec, Session& session) {
  if (job.model.weights.empty()) return std::nullopt;
  GivenValues given = given_values(job.model.weights, parameters_of(job_model(job, spec)));
  write_values(given, session);
  return given;
}

Part own_part(const Session& session, const Processes* processes) {
  const BatchShare share = shares_of(session.program(), processes == nullptr ? 0 : processes->rank());
  return {share.begin, share.end, share.of, session.program().least.part};
}

TrainerOptions job_batches(const Job& job, const SampleSpec& spec, const Session& session,
                           const Processes* processes) {
  TrainerOptions options;
  options.batch = job.training.batch;
  options.evaluation_batch = job.training.evaluation_batch;
  options.seed = static_cast<uint64_t>(job.training.seed);
  options.shuffle = job.data.shuffle;
  options.together = samples_together(job, job_workers(job, processes));
  options.loader_threads = loader_threads(job, processes);
  options.prefetch = static_cast<int>(job.data.prefetch);
  options.figures = job_figures(job, spec, session);
  options.part = own_part(session, processes);
  return options;
}

}  // namespace telar
