#include <fmt/format.h>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/source.h"
#include "telar/strategy/strategy.h"
#include "telar/strategy/strategy_like.h"
#include "telar/train/job_keys.h"

namespace telar {

namespace {

const std::string kStrategy = "strategy.name";

/// YAML parses "cuda:" as a map with the key "cuda". Converts it back to that name, so that the message is
/// about the name.
JobNode with_names(JobNode node) {
  for (JobNode& item : node.items) item = with_names(std::move(item));
  if (node.kind != JobNode::Kind::map || node.entries.size() != 1) return node;
  const JobEntry& entry = node.entries.front();
  node.text = entry.key + ":" + entry.value.text;
  node.kind = JobNode::Kind::scalar;
  node.entries.clear();
  return node;
}

JobKey read_as_devices(JobKey key) {
  key.read = [read = std::move(key.read)](Job& job, const JobNode& node) { read(job, with_names(node)); };
  return key;
}

std::vector<std::string> sharing_batches() {
  return strategy_names([](const StrategyType& type) { return usual_workers(type).unequal; });
}

std::vector<std::string> sharing_batches_on_gpus() {
  return strategy_names([](const StrategyType& type) { return usual_workers(type).unequal && type.on_gpus; });
}

std::vector<std::string> in_lockstep() {
  return strategy_names([](const StrategyType& type) { return !type.count.empty() && !type.uses_servers; });
}

/// Where no process has all of the state.
std::vector<std::string> in_lockstep_with_divided_state() {
  return strategy_names([](const StrategyType& type) {
    const bool whole = usual_workers(type).unequal && !type.keeps_parts;
    return !type.count.empty() && !type.uses_servers && !whole;
  });
}

std::vector<std::string> using_servers() {
  return strategy_names([](const StrategyType& type) { return type.uses_servers; });
}

std::string strategies_text() {
  std::string text;
  for (const StrategyType& type : strategy_types())
    text += fmt::format("{}{}: {}. ", type.name, type.uses_servers ? " (with parameter servers)" : "",
                        type.summary);
  return text + "docs/strategies.md describes them. Short form: `strategy: mirrored`.";
}

/// Another system's word for a strategy is answered by ours.
JobKey suggesting_strategies(JobKey key) {
  key.read = [path = key.path, read = key.read](Job& job, const JobNode& node) {
    const std::string like = strategy_like(node.text);
    if (node.kind == JobNode::Kind::scalar && !like.empty() && like != node.text)
      throw user_error("{}: {} is {}; it must be {}; did you mean '{}'?", node.where, path, node.described(),
                       one_of(strategy_names()), like);
    read(job, node);
  };
  return key;
}

std::vector<JobKey> strategy_keys() {
  return {
      suggesting_strategies(job_key(
          kStrategy, [](auto& job) -> auto& { return job.strategy.name; }, {.choices = strategy_names()},
          strategies_text())),
      without_result(read_as_devices(job_key(
          "strategy.devices", [](auto& job) -> auto& { return job.strategy.devices; }, {},
          "Devices of the replicas or workers; a single name applies to all of them. cpu: the CPU. cpu:0-7 or cpu:0,2: these cores, with one thread each. cuda or cuda:N: a GPU (docs/gpu.md). Several names: one replica or worker on each. Short form: `device: cuda`."))),
      job_key(
          "strategy.threads", [](auto& job) -> auto& { return job.strategy.threads; },
          {.least = 0, .most = 4096},
          "Threads of each replica or stage; a single number applies to all of them. 0: the cores of this machine (at most OMP_THREAD_LIMIT, if the environment sets it) are divided equally."),
      when(
          kStrategy, sharing_batches(),
          job_key(
              "strategy.shares", [](auto& job) -> auto& { return job.strategy.shares; }, {},
              "How a batch is divided: equally, by the measured speed of each replica, or in these proportions. auto: by speed if the replicas run on both CPUs and GPUs, equally otherwise.")),
      when(
          kStrategy, sharing_batches_on_gpus(),
          without_result(job_key(
              "strategy.gpu_exchange", [](auto& job) -> auto& { return job.strategy.gpu_exchange; },
              {.choices = {"auto", "nccl", "host"}},
              "How GPUs exchange gradients: by NCCL, or through host memory. auto: by NCCL if it is installed and each replica has its own GPU."))),
      when(
          kStrategy, in_lockstep(),
          without_result(job_key(
              "strategy.min_workers", [](auto& job) -> auto& { return job.strategy.min_workers; },
              {.least = 0, .most = 10'000},
              "Number of processes (--workers) with which the run goes on when others die: the step in which one is lost is made again, with the same samples, by those who are left, and others take the free places (docs/failures.md). 0: a process that is lost ends the run, which continues from its checkpoint. On CPUs, and not with `data.spread` or a stream."))),
      when(
          kStrategy, in_lockstep_with_divided_state(),
          without_result(job_key(
              "strategy.keep_steps", [](auto& job) -> auto& { return job.strategy.keep_steps; },
              {.least = 1, .most = 1e9},
              "With strategy.min_workers: rank 0 keeps a copy of the state that is divided among the processes, as it is after every N steps, and those who are left make the steps since then again. local_sgd: as it is at the end of the next epoch."))),
  };
}

/// The number of workers, which may be a group of limits instead.
JobKey or_limits(JobKey key) {
  const auto read_limits = [path = key.path, read = key.read](Job& job, const JobNode& node) {
    ElasticWorkers limits;
    limits.min = 1;
    bool has_max = false;
    for (const JobEntry& entry : node.entries) {
      const std::string name = path + "." + entry.key;
      if (entry.key == "min") {
        read_value(entry.value, name, {.least = 1, .most = 1024}, limits.min);
      } else if (entry.key == "lag_seconds") {
        read_value(entry.value, name, {.least = 0, .most = 1e6, .above_least = true}, limits.lag_seconds);
      } else if (entry.key == "max") {
        read_value(entry.value, name, {.least = 1, .most = 1024}, limits.max);
        read(job, entry.value);
        has_max = true;
      } else {
        throw user_error("{}: {} is unknown; the limits of {} are min, max and lag_seconds", entry.where,
                         name, path);
      }
    }
    if (!has_max) throw user_error("{}: {} has no max", node.where, path);
    if (limits.max < limits.min)
      throw user_error("{}: {}.max is {}; it must be at least {}, the min", node.where, path, limits.max,
                       limits.min);
    job.strategy.elastic = limits;
  };
  key.kind += ", or `{min: 1, max: 8, lag_seconds: 5}`";
  key.doc +=
      " A group: of a stream, workers come and go so that the lag stays below so many seconds (docs/stream.md); strategies whose workers go at their own pace have it.";
  key.read = [read_limits, read = std::move(key.read)](Job& job, const JobNode& node) {
    job.strategy.elastic = {};
    node.kind == JobNode::Kind::map ? read_limits(job, node) : read(job, node);
  };
  key.write = [write = std::move(key.write)](const Job& job) {
    const ElasticWorkers& limits = job.strategy.elastic;
    return limits.min == 0 ? write(job)
                           : fmt::format("{{min: {}, max: {}, lag_seconds: {}}}", limits.min, write(job),
                                         value_text(limits.lag_seconds));
  };
  return key;
}

std::vector<JobKey> strategy_option_keys() {
  std::vector<std::pair<std::string, std::vector<Option>>> options;
  for (const StrategyType& type : strategy_types()) options.emplace_back(type.name, type.options);
  std::vector<JobKey> keys = keys_of_choices(
      "strategy", kStrategy, options, [](auto& job) -> auto& { return job.strategy.options; });
  for (JobKey& key : keys) {
    const bool of_servers = strategy_type(key.when.values.front()).uses_servers;
    if (of_servers && key.path == "strategy." + strategy_type(key.when.values.front()).count)
      key = or_limits(std::move(key));
  }
  return keys;
}

std::vector<JobKey> server_keys() {
  return {
      when(kStrategy, using_servers(),
           job_key(
               "strategy.servers", [](auto& job) -> auto& { return job.strategy.servers; },
               {.least = 1, .most = 1024}, "Number of parameter servers.")),
      when(
          kStrategy, using_servers(),
          without_result(job_key(
              "strategy.server_addresses", [](auto& job) -> auto& { return job.strategy.server_addresses; },
              {},
              "HOST:PORT of each server that was started with `telar serve`; a DNS name stands for all of its addresses. Empty: the servers are started on this machine."))),
      when(
          kStrategy, using_servers(),
          without_result(job_key(
              "strategy.server_replicas", [](auto& job) -> auto& { return job.strategy.server_replicas; },
              {.least = 0, .most = 3},
              "Copies of what each parameter server holds. 1: its own; a killed server continues from its snapshot, without its last updates. 2: one more on the next server, which takes its place within 2 s, so that nothing is lost; a single server has a second process for its copy. 3: on the next two servers. All copies need memory, and snapshots are not used (docs/failures.md). 0: 2 with two servers or more, unless `strategy.snapshot_seconds` asks for snapshots; otherwise 1."))),
      when(
          kStrategy, using_servers(),
          without_result(job_key(
              "strategy.snapshot_seconds", [](auto& job) -> auto& { return job.strategy.snapshot_seconds; },
              {.least = 0, .most = 1e6},
              "Time between two snapshots of a server, and so the most that it can lose when it fails. 0: 1 s, in longer runs 1 % of the time up to 10 s, and more if snapshots would take more than 2 % of a processor or half of the disk. (`telar serve` has its own option.)"))),
      when(
          kStrategy, using_servers(),
          without_result(job_key(
              "strategy.shared_memory", [](auto& job) -> auto& { return job.strategy.shared_memory; }, {},
              "Workers and servers on one host communicate through shared memory. false: always through the network."))),
  };
}

std::vector<JobKey> output_keys() {
  return {
      without_result(job_key(
          "output.folder", [](auto& job) -> auto& { return job.output.folder; }, {},
          "The run folder. Empty: runs/NAME-N, where N is the first free number.")),
      without_result(job_key(
          "output.checkpoint_epochs", [](auto& job) -> auto& { return job.output.checkpoint_epochs; },
          {.least = 0, .most = 1e9},
          "Saves a checkpoint every N epochs, after each epoch that is the best so far, and at the end. 0: only at the end.")),
      without_result(job_key(
          "output.checkpoint_steps", [](auto& job) -> auto& { return job.output.checkpoint_steps; },
          {.least = 0, .most = 1e15}, "Also saves a checkpoint every N steps. 0: never.")),
      when(
          "data.source", source_names([](const SourceType& type) { return type.open_stream != nullptr; }),
          without_result(job_key(
              "output.checkpoint_messages", [](auto& job) -> auto& { return job.output.checkpoint_messages; },
              {.least = 0, .most = 1e15},
              "The same in messages: every N of them, rounded up to whole steps. 0: never. Only one of the two is given."))),
      without_result(job_key(
          "output.checkpoint_minutes", [](auto& job) -> auto& { return job.output.checkpoint_minutes; },
          {.least = 0, .most = 1e6},
          "Also saves a checkpoint after the first step that ends N minutes after the last one of these. 0: never. Not with parameter servers.")),
      without_result(job_key(
          "output.keep", [](auto& job) -> auto& { return job.output.keep; }, {.least = 1, .most = 1e9},
          "Number of checkpoints to keep, besides the best.")),
      without_result(job_key(
          "output.storage", [](auto& job) -> auto& { return job.output.storage; }, {},
          "Where each checkpoint is stored, too, so that the run outlives its host: `s3://BUCKET/FOLDER` (by the program rclone or aws), `REMOTE:FOLDER` with a remote of rclone, or the absolute path of a folder. A run that begins goes on from there if there is a newer checkpoint than in its folder ([Run it on your cluster](cluster.md#a-run-that-outlives-its-host)).")),
      without_result(job_key(
          "output.after_checkpoint", [](auto& job) -> auto& { return job.output.after_checkpoint; }, {},
          "A command that the shell runs after each checkpoint, before older ones are removed, as to copy it elsewhere. `TELAR_CHECKPOINT` is the checkpoint's folder, and `TELAR_RUN` the run's. The training goes on meanwhile; the next checkpoint waits for it. If it fails, that is a warning.")),
      without_result(job_key(
          "output.tensorboard", [](auto& job) -> auto& { return job.output.tensorboard; }, {},
          "Writes event files for TensorBoard.")),
      without_result(job_key(
          "output.log_steps", [](auto& job) -> auto& { return job.output.log_steps; },
          {.least = 1, .most = 1e15},
          "Writes a line to metrics.jsonl and a point to TensorBoard every N steps.")),
  };
}

JobKey of_engines(const std::vector<std::string>& engines, JobKey key) {
  return without_result(when("run.on", engines, std::move(key)));
}

JobKey of_engine(const std::string& engine, JobKey key) { return of_engines({engine}, std::move(key)); }

std::vector<JobKey> launch_keys() {
  return {
      without_result(job_key(
          "run.on", [](auto& job) -> auto& { return job.run.on; },
          {.choices = {"local", "ssh", "slurm", "ray", "kubernetes"}},
          "Where `telar launch` runs the job: on this host, on hosts that ssh reaches, on the nodes of Slurm, on those of Ray, or by manifests for Kubernetes.")),
      without_result(job_key(
          "run.processes", [](auto& job) -> auto& { return job.run.processes; }, {.least = 0, .most = 10'000},
          "Processes that train. 0: one on each place of the hosts or nodes, or for each task of Slurm. Not with parameter servers, of whose workers `strategy.workers` says how many there are.")),
      without_result(job_key(
          "run.restarts", [](auto& job) -> auto& { return job.run.restarts; }, {.least = 0, .most = 1000},
          "How often a run that has failed is started again.")),
      without_result(job_key(
          "run.program", [](auto& job) -> auto& { return job.run.program; }, {},
          "The path of telar on the hosts. Empty: that of `telar launch`.")),
      of_engine("ssh", job_key(
                           "run.hosts", [](auto& job) -> auto& { return job.run.hosts; }, {},
                           "The hosts, as in `[node1, \"node2:4\"]`: four places on node2.")),
      of_engine("ssh", job_key(
                           "run.host_file", [](auto& job) -> auto& { return job.run.host_file; }, {},
                           "The same in a file of OpenMPI, MPICH or PBS.")),
      of_engine("ssh", job_key(
                           "run.ssh", [](auto& job) -> auto& { return job.run.ssh; }, {},
                           "The program ssh with its options.")),
      of_engine(
          "slurm",
          job_key(
              "run.nodes", [](auto& job) -> auto& { return job.run.nodes; }, {.least = 0, .most = 10'000},
              "Submits the command as a batch job of so many nodes. 0: it is in an allocation.")),
      of_engine("slurm", job_key(
                             "run.partition", [](auto& job) -> auto& { return job.run.partition; }, {},
                             "Slurm's partition for that batch job. Empty: the default one.")),
      of_engine("ray", job_key(
                           "run.address", [](auto& job) -> auto& { return job.run.address; }, {},
                           "The address of Ray's cluster. auto: the one of which this host is a node.")),
      of_engine("ray", job_key(
                           "run.python", [](auto& job) -> auto& { return job.run.python; }, {},
                           "A Python that has Ray, on the host of `telar launch`.")),
      of_engines(
          {"ray", "kubernetes"},
          job_key(
              "run.cpus", [](auto& job) -> auto& { return job.run.cpus; }, {.least = 0, .most = 4096},
              "Processors of each place; a process that trains uses no more threads. 0: with Ray, each node is one place, with all of its processors; on Kubernetes, one is requested and there is no limit.")),
      of_engine("kubernetes", job_key(
                                  "run.image", [](auto& job) -> auto& { return job.run.image; }, {},
                                  "The image of the containers, which has telar on its PATH.")),
      of_engine("kubernetes", job_key(
                                  "run.gpus", [](auto& job) -> auto& { return job.run.gpus; },
                                  {.least = 0, .most = 64}, "GPUs of each process that trains.")),
      of_engine("kubernetes", job_key(
                                  "run.memory", [](auto& job) -> auto& { return job.run.memory; }, {},
                                  "Memory of each pod, as in `4Gi`. Empty: no limit.")),
  };
}

}  // namespace

std::vector<JobKey> run_keys() {
  std::vector<JobKey> keys;
  for (const auto& part :
       {strategy_keys(), strategy_option_keys(), server_keys(), output_keys(), launch_keys()})
    keys.insert(keys.end(), part.begin(), part.end());
  return keys;
}

}  // namespace telar
