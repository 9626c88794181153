#include "telar/strategy/strategy.h"
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

std::vector<JobKey> strategy_keys() {
  return {
      job_key(
          kStrategy, [](auto& job) -> auto& { return job.strategy.name; }, {.choices = strategy_names()},
          "single: one device. mirrored: replicas, each of which processes a share of every batch; they exchange gradients. pipeline: the layers are divided into stages, and the micro-batches of a batch pass through them one after another. With parameter servers (docs/strategies.md): sync_ps, async_sgd, downpour, parameter_averaging. Short form: `strategy: mirrored`."),
      when(kStrategy, {"mirrored"},
           job_key(
               "strategy.replicas", [](auto& job) -> auto& { return job.strategy.replicas; },
               {.least = 1, .most = 1024}, "Number of replicas in each process.")),
      when(
          kStrategy, {"pipeline"},
          job_key(
              "strategy.stages", [](auto& job) -> auto& { return job.strategy.stages; },
              {.least = 1, .most = 1024},
              "Number of stages. The layers are divided so that the slowest stage is as fast as possible, by the measured time of each operation.")),
      when(
          kStrategy, {"pipeline"},
          job_key(
              "strategy.micro_batches", [](auto& job) -> auto& { return job.strategy.micro_batches; },
              {.least = 0, .most = 65536},
              "Number of micro-batches into which each batch is divided. 0: four per stage. Batch normalisation uses the statistics of each micro-batch.")),
      without_result(read_as_devices(job_key(
          "strategy.devices", [](auto& job) -> auto& { return job.strategy.devices; }, {},
          "Devices of the replicas or workers; a single name applies to all of them. cpu: the CPU. cpu:0-7 or cpu:0,2: these cores, with one thread each. cuda or cuda:N: a GPU (docs/gpu.md). Several names: one replica or worker on each. Short form: `device: cuda`."))),
      job_key(
          "strategy.threads", [](auto& job) -> auto& { return job.strategy.threads; },
          {.least = 0, .most = 4096},
          "Threads of each replica or stage; a single number applies to all of them. 0: the cores of this machine (at most OMP_THREAD_LIMIT, if the environment sets it) are divided equally."),
      when(
          kStrategy, {"mirrored"},
          job_key(
              "strategy.shares", [](auto& job) -> auto& { return job.strategy.shares; }, {},
              "How a batch is divided: equally, by the measured speed of each replica, or in these proportions. auto: by speed if the replicas run on both CPUs and GPUs, equally otherwise.")),
      when(
          kStrategy, {"mirrored"},
          job_key(
              "strategy.batch_norm", [](auto& job) -> auto& { return job.strategy.batch_norm; },
              {.choices = {"local", "synchronised"}},
              "local: statistics of each replica's share of the batch. synchronised: statistics of the whole batch, as on one device.")),
      when(kStrategy, {"mirrored"},
           job_key(
               "strategy.bucket_mb", [](auto& job) -> auto& { return job.strategy.bucket_mb; },
               {.least = 0, .most = 65536, .above_least = true},
               "Size of the buckets in which gradients are exchanged.")),
      when(
          kStrategy, {"mirrored"},
          without_result(job_key(
              "strategy.gpu_exchange", [](auto& job) -> auto& { return job.strategy.gpu_exchange; },
              {.choices = {"auto", "nccl", "host"}},
              "How GPUs exchange gradients: by NCCL, or through host memory. auto: by NCCL if it is installed and each replica has its own GPU."))),
  };
}

const auto& server_strategies() {
  static const std::vector<std::string> names = server_strategy_names();
  return names;
}

std::vector<JobKey> worker_keys() {
  return {
      when(
          kStrategy, server_strategies(),
          job_key(
              "strategy.workers", [](auto& job) -> auto& { return job.strategy.workers; },
              {.least = 1, .most = 1024},
              "Number of worker processes that compute at the same time. More may join; they wait as spares.")),
      when(kStrategy, {"sync_ps"},
           job_key(
               "strategy.backups", [](auto& job) -> auto& { return job.strategy.backups; },
               {.least = 0, .most = 1024},
               "Number of additional workers. Of all gradients of a step, the first `workers` are used.")),
      when(kStrategy, {"downpour"},
           job_key(
               "strategy.push_every", [](auto& job) -> auto& { return job.strategy.push_every; },
               {.least = 1, .most = 1e9}, "Steps between two pushes of gradients: n_push.")),
      when(kStrategy, {"downpour"},
           job_key(
               "strategy.fetch_every", [](auto& job) -> auto& { return job.strategy.fetch_every; },
               {.least = 1, .most = 1e9}, "Steps between two fetches of parameters: n_fetch.")),
      when(
          kStrategy, {"async_sgd", "downpour"},
          job_key(
              "strategy.staleness", [](auto& job) -> auto& { return job.strategy.staleness; },
              {.least = -1, .most = 1e9},
              "Maximum number of batches by which a worker may be ahead of the slowest one; it waits before it exceeds this number. -1: no limit.")),
      when(kStrategy, {"parameter_averaging"},
           job_key(
               "strategy.average_every", [](auto& job) -> auto& { return job.strategy.average_every; },
               {.least = 1, .most = 1e9}, "Steps of each worker between two averages.")),
      when(kStrategy, {"parameter_averaging"},
           job_key(
               "strategy.outer_learning_rate",
               [](auto& job) -> auto& { return job.strategy.outer_learning_rate; },
               {.least = 0, .most = 1e6, .above_least = true},
               "Learning rate of the step towards the workers' mean. 1 without momentum: the mean itself.")),
      when(kStrategy, {"parameter_averaging"},
           job_key(
               "strategy.outer_momentum", [](auto& job) -> auto& { return job.strategy.outer_momentum; },
               {.least = 0, .most = 1, .below_most = true},
               "Momentum of the step towards the workers' mean.")),
      when(kStrategy, {"parameter_averaging"},
           job_key(
               "strategy.outer_nesterov", [](auto& job) -> auto& { return job.strategy.outer_nesterov; }, {},
               "Uses Nesterov momentum for that step.")),
  };
}

std::vector<JobKey> server_keys() {
  return {
      when(kStrategy, server_strategies(),
           job_key(
               "strategy.servers", [](auto& job) -> auto& { return job.strategy.servers; },
               {.least = 1, .most = 1024}, "Number of parameter servers.")),
      when(
          kStrategy, server_strategies(),
          without_result(job_key(
              "strategy.server_addresses", [](auto& job) -> auto& { return job.strategy.server_addresses; },
              {},
              "HOST:PORT of each server that was started with `telar serve`; a DNS name stands for all of its addresses. Empty: the servers are started on this machine."))),
      when(
          kStrategy, server_strategies(),
          job_key(
              "strategy.placement", [](auto& job) -> auto& { return job.strategy.placement; },
              {.choices = placement_policies()},
              "Placement of variables on servers. greedy: the largest variable first, each on the server with the fewest bytes. partitioned: the same, but large variables are split by rows. round_robin: in turn.")),
      when(
          kStrategy, server_strategies(),
          job_key(
              "strategy.place", [](auto& job) -> auto& { return job.strategy.place; }, {},
              "Variables that are assigned to a given server before the placement: `[\"conv*=0\", \"*.bias=1\"]`.")),
      when(
          kStrategy, server_strategies(),
          without_result(job_key(
              "strategy.snapshot_seconds", [](auto& job) -> auto& { return job.strategy.snapshot_seconds; },
              {.least = 0.1, .most = 1e6},
              "Time between two snapshots of a server, and so the most that it can lose when it fails. (`telar serve` has its own option.)"))),
      when(
          kStrategy, server_strategies(),
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
      without_result(job_key(
          "output.keep", [](auto& job) -> auto& { return job.output.keep; }, {.least = 1, .most = 1e9},
          "Number of checkpoints to keep, besides the best.")),
      without_result(job_key(
          "output.tensorboard", [](auto& job) -> auto& { return job.output.tensorboard; }, {},
          "Writes event files for TensorBoard.")),
      without_result(job_key(
          "output.log_steps", [](auto& job) -> auto& { return job.output.log_steps; },
          {.least = 1, .most = 1e15},
          "Writes a line to metrics.jsonl and a point to TensorBoard every N steps.")),
  };
}

}  // namespace

std::vector<JobKey> run_keys() {
  std::vector<JobKey> keys;
  for (const auto& part : {strategy_keys(), worker_keys(), server_keys(), output_keys()})
    keys.insert(keys.end(), part.begin(), part.end());
  return keys;
}

}  // namespace telar
