#include "telar/strategy/strategy.h"
#include "telar/train/job_keys.h"

namespace telar {

namespace {

const std::string kStrategy = "strategy.name";

/// YAML takes "cuda:" for a group of keys: the name that was meant, so that what is wrong with it is said.
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
          "single: one device. mirrored: replicas, each with a part of every batch, that share their "
          "gradients. pipeline: the layers cut into stages, through which the parts of a batch follow each "
          "other. With parameter servers (docs/strategies.md): sync_ps, async_sgd, downpour, "
          "parameter_averaging. `strategy: mirrored` is short for it."),
      when(kStrategy, {"mirrored"},
           job_key(
               "strategy.replicas", [](auto& job) -> auto& { return job.strategy.replicas; },
               {.least = 1, .most = 1024}, "How many, in each process.")),
      when(kStrategy, {"pipeline"},
           job_key(
               "strategy.stages", [](auto& job) -> auto& { return job.strategy.stages; },
               {.least = 1, .most = 1024},
               "Into how many stages the layers are cut, so that the slowest is as fast as it can be by the "
               "time that each operation took when it was measured.")),
      when(kStrategy, {"pipeline"},
           job_key(
               "strategy.micro_batches", [](auto& job) -> auto& { return job.strategy.micro_batches; },
               {.least = 0, .most = 65536},
               "Into how many parts a batch is cut, which follow each other through the stages. 0: four for "
               "each stage. Batch normalisation has the statistics of each part.")),
      without_result(read_as_devices(job_key(
          "strategy.devices", [](auto& job) -> auto& { return job.strategy.devices; }, {},
          "What the replicas or workers run on; one name stands for all of them. cpu; cpu:0-7 or cpu:0,2: "
          "these cores, with a thread for each; cuda, or cuda:N: a GPU (docs/gpu.md). With several names "
          "there is a replica or a worker on each. `device: cuda` is short for it."))),
      job_key(
          "strategy.threads", [](auto& job) -> auto& { return job.strategy.threads; },
          {.least = 0, .most = 4096},
          "Of each replica or stage; one number stands for all. 0: the cores of this machine (at most "
          "OMP_THREAD_LIMIT, where the environment sets it), divided."),
      when(kStrategy, {"mirrored"},
           job_key(
               "strategy.shares", [](auto& job) -> auto& { return job.strategy.shares; }, {},
               "How a batch is split: equally, by each replica's measured speed, or in these proportions. "
               "auto: by speed where there are processors and GPUs, else equally.")),
      when(kStrategy, {"mirrored"},
           job_key(
               "strategy.batch_norm", [](auto& job) -> auto& { return job.strategy.batch_norm; },
               {.choices = {"local", "synchronised"}},
               "Statistics of each replica's part of the batch, or of the whole batch (equal to one "
               "device).")),
      when(kStrategy, {"mirrored"},
           job_key(
               "strategy.bucket_mb", [](auto& job) -> auto& { return job.strategy.bucket_mb; },
               {.least = 0, .most = 65536, .above_least = true},
               "Gradients are exchanged in pieces of this size.")),
      when(kStrategy, {"mirrored"},
           without_result(job_key(
               "strategy.gpu_exchange", [](auto& job) -> auto& { return job.strategy.gpu_exchange; },
               {.choices = {"auto", "nccl", "host"}},
               "How gradients go between GPUs: by NCCL, or through the host's memory. auto: by NCCL where it "
               "is installed and each replica has a GPU of its own."))),
  };
}

const auto& server_strategies() {
  static const std::vector<std::string> names = server_strategy_names();
  return names;
}

std::vector<JobKey> worker_keys() {
  return {
      when(kStrategy, server_strategies(),
           job_key(
               "strategy.workers", [](auto& job) -> auto& { return job.strategy.workers; },
               {.least = 1, .most = 1024},
               "Processes that compute at once. More may join; they wait, and step in.")),
      when(kStrategy, {"sync_ps"},
           job_key(
               "strategy.backups", [](auto& job) -> auto& { return job.strategy.backups; },
               {.least = 0, .most = 1024},
               "Further workers: of all gradients of a step the first `workers` count.")),
      when(kStrategy, {"downpour"},
           job_key(
               "strategy.push_every", [](auto& job) -> auto& { return job.strategy.push_every; },
               {.least = 1, .most = 1e9}, "Steps between two pushes of gradients: n_push.")),
      when(kStrategy, {"downpour"},
           job_key(
               "strategy.fetch_every", [](auto& job) -> auto& { return job.strategy.fetch_every; },
               {.least = 1, .most = 1e9}, "Steps between two fetches of parameters: n_fetch.")),
      when(kStrategy, {"async_sgd", "downpour"},
           job_key(
               "strategy.staleness", [](auto& job) -> auto& { return job.strategy.staleness; },
               {.least = -1, .most = 1e9},
               "A worker waits before it is more batches than this ahead of the slowest. -1: never.")),
      when(kStrategy, {"parameter_averaging"},
           job_key(
               "strategy.average_every", [](auto& job) -> auto& { return job.strategy.average_every; },
               {.least = 1, .most = 1e9}, "Steps of each worker between two averages.")),
      when(kStrategy, {"parameter_averaging"},
           job_key(
               "strategy.outer_learning_rate",
               [](auto& job) -> auto& { return job.strategy.outer_learning_rate; },
               {.least = 0, .most = 1e6, .above_least = true},
               "Of the step towards the workers' mean. 1, without momentum: the mean itself.")),
      when(kStrategy, {"parameter_averaging"},
           job_key(
               "strategy.outer_momentum", [](auto& job) -> auto& { return job.strategy.outer_momentum; },
               {.least = 0, .most = 1, .below_most = true}, "Of that step.")),
      when(kStrategy, {"parameter_averaging"},
           job_key(
               "strategy.outer_nesterov", [](auto& job) -> auto& { return job.strategy.outer_nesterov; }, {},
               "Nesterov's form of that momentum.")),
  };
}

std::vector<JobKey> server_keys() {
  return {
      when(kStrategy, server_strategies(),
           job_key(
               "strategy.servers", [](auto& job) -> auto& { return job.strategy.servers; },
               {.least = 1, .most = 1024}, "Parameter servers.")),
      when(kStrategy, server_strategies(),
           without_result(job_key(
               "strategy.server_addresses", [](auto& job) -> auto& { return job.strategy.server_addresses; },
               {},
               "HOST:PORT of each server that `telar serve` has started; a DNS name stands for all of its "
               "addresses. Empty: the servers are started on this machine."))),
      when(kStrategy, server_strategies(),
           job_key(
               "strategy.placement", [](auto& job) -> auto& { return job.strategy.placement; },
               {.choices = placement_policies()},
               "Of variables on servers. greedy: the largest first, each where the fewest bytes are. "
               "partitioned: "
               "the same, large ones cut by rows. round_robin: one after the other.")),
      when(kStrategy, server_strategies(),
           job_key(
               "strategy.place", [](auto& job) -> auto& { return job.strategy.place; }, {},
               "Variables that go to a given server, before the placement: `[\"conv*=0\", \"*.bias=1\"]`.")),
      when(kStrategy, server_strategies(),
           without_result(job_key(
               "strategy.snapshot_seconds", [](auto& job) -> auto& { return job.strategy.snapshot_seconds; },
               {.least = 0.1, .most = 1e6},
               "Between two snapshots of a server: what it can lose when it dies. (`telar serve` has its "
               "own.)"))),
      when(kStrategy, server_strategies(),
           without_result(job_key(
               "strategy.shared_memory", [](auto& job) -> auto& { return job.strategy.shared_memory; }, {},
               "Workers and servers of one host use shared memory; false: the network, always."))),
  };
}

std::vector<JobKey> output_keys() {
  return {
      without_result(job_key(
          "output.folder", [](auto& job) -> auto& { return job.output.folder; }, {},
          "The run folder. Empty: runs/NAME-N, N the first number that is free.")),
      without_result(job_key(
          "output.checkpoint_epochs", [](auto& job) -> auto& { return job.output.checkpoint_epochs; },
          {.least = 0, .most = 1e9},
          "A checkpoint after every so many epochs, after each epoch that is the best so far, and at the "
          "end. 0: at the end only.")),
      without_result(job_key(
          "output.checkpoint_steps", [](auto& job) -> auto& { return job.output.checkpoint_steps; },
          {.least = 0, .most = 1e15}, "And after every so many steps. 0: never.")),
      without_result(job_key(
          "output.keep", [](auto& job) -> auto& { return job.output.keep; }, {.least = 1, .most = 1e9},
          "How many checkpoints are kept, besides the best.")),
      without_result(job_key(
          "output.tensorboard", [](auto& job) -> auto& { return job.output.tensorboard; }, {},
          "Writes event files for TensorBoard.")),
      without_result(job_key(
          "output.log_steps", [](auto& job) -> auto& { return job.output.log_steps; },
          {.least = 1, .most = 1e15},
          "Every so many steps a line in metrics.jsonl and a point in TensorBoard.")),
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
