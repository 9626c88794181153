#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "telar/core/attributes.h"
#include "telar/data/reading_rules.h"
#include "telar/train/worker_policy.h"

namespace telar {

/// One layer of a model whose layers the job lists.
struct LayerJob {
  std::string name;                 ///< "conv1"; derived from type and position if not given
  std::string type;                 ///< "conv2d"
  std::vector<std::string> inputs;  ///< names of layers, or "input"; empty: the previous layer
  Attributes options;               ///< "kernel" …; all are valid for the type
  std::string where;                ///< "job.yaml:12", for messages
};

/// A model from the zoo, a list of layers, or a model file.
struct ModelJob {
  std::string name;  ///< of a model in the zoo; empty if `layers` or `file` is used
  Attributes options;
  std::vector<LayerJob> layers;
  std::string file;      ///< a model file (telar/io/model_file.h)
  std::string checksum;  ///< of that file; empty: any. A job as run has it
  /// Of a model in the zoo or of layers: the values with which it starts, a .safetensors file, a run or a
  /// checkpoint. Empty: random ones.
  std::string weights;
  std::vector<std::string> freeze;  ///< patterns of layers and parameters that are not trained
  std::string where;                ///< "job.yaml:3", for messages
};

/// `data.threads` of a job that leaves their number to loader_threads().
inline constexpr int64_t kAutomaticThreads = -1;

/// `data.split_seed` of a job that takes training.seed.
inline constexpr int64_t kSeedOfTraining = -1;

/// The source of the samples and how they are prepared. docs/job.md lists the keys of each source.
struct DataJob {
  std::string source;
  Attributes options;   ///< those of the source (SourceType::options), all of them
  bool spread = false;  ///< each process has samples of its own
  int64_t limit = 0;
  double validation = 0.1;
  double test = 0;
  std::string split = "random";
  int64_t split_seed = kSeedOfTraining;
  int64_t folds = 0;
  int64_t fold = 1;
  bool normalise = true;
  std::vector<double> mean;
  std::vector<double> std;
  std::vector<double> target_mean;
  int64_t augment_padding = 0;
  bool augment_flip = false;
  bool shuffle = true;
  std::string mixing = "shuffled";
  std::string on_error = "stop";
  int64_t cache_mb = 4096;
  int64_t threads = kAutomaticThreads;
  int64_t prefetch = 4;
  int64_t rules = kNewestRules;  ///< no key of a job: a run keeps its own (samples.json)
  std::string loss;              ///< no key of this section: loss.name, which tells what labels may be

  bool splits_by_column() const { return split == "column"; }  ///< which names the part of each sample
  /// Whether samples are set aside for validation, as far as the job tells.
  bool validates() const { return validation > 0 || folds > 0 || splits_by_column(); }
};

/// A number that the job does not give, before the reader fills in a default that depends on other keys.
inline constexpr double kNotGiven = -1;

struct LossJob {
  std::string name = "auto";
  double delta = 1;
  double gamma = 2;
  std::vector<double> class_weights;
  bool balanced = false;
};

struct OptimizerJob {
  std::string name = "adam";
  double learning_rate = kNotGiven;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double alpha = 0.99;
  double epsilon = kNotGiven;
  double lr_decay = 0;
  std::vector<std::string> factors;  ///< "PATTERN: FACTOR", see optimizer.factors
};

struct ScheduleJob {
  std::string name = "constant";
  double warmup_epochs = 0;
  double warmup_rate = kNotGiven;
  std::string scale = "none";
  std::vector<double> milestones;  ///< epochs
  double every_epochs = 0;
  double gamma = 0.1;
  double decay = 1;
  double minimum = 0;
  int64_t patience = 5;  ///< epochs
};

/// How each batch of a stream is tested before it is trained on, and what is averaged.
struct PrequentialJob {
  std::string pass = "training";
  int64_t window = 10'000;  ///< samples
  double fading = 0.9999;
};

/// How drifts of a stream are detected, and what follows.
struct DriftJob {
  std::string detector = "none";
  std::string signal = "auto";
  double delta = 0.002;
  double threshold = 50;
  double tolerance = 0.005;
  int64_t values = 30;
  std::string action = "log";
  double factor = 10;
  int64_t steps = 100;
};

struct TrainingJob {
  int64_t epochs = 10;
  int64_t epoch_steps = 0;  ///< of a stream without an end; 0: not given
  int64_t batch = 32;
  std::string batch_per = "step";
  int64_t evaluation_batch = 256;
  std::string precision = "f32";
  std::string convolution = "direct";
  int64_t seed = 1;
  double clip_norm = 0;  ///< 0: off
  double label_smoothing = 0;
  std::vector<int64_t> top_k = {1};
  std::vector<std::string> metrics;
  std::string early_stopping_metric = "loss";
  int64_t early_stopping_patience = 0;  ///< epochs; 0: off
  PrequentialJob prequential;
  DriftJob drift;
};

/// How the batch is divided among the replicas.
struct SharesJob {
  std::string mode = "auto";    ///< "auto", "equal", "measured" or "list"
  std::vector<double> weights;  ///< if the mode is "list"
};

struct StrategyJob {
  std::string name = "single";
  bool implied = false;    ///< the job names none, and is of several processes (read_job())
  ElasticWorkers elastic;  ///< if the number of workers follows the load; `max` is that of
                           ///< the options
  Attributes options;      ///< those of the strategy (StrategyType::options), all of them
  std::vector<std::string> devices = {"cpu"};  ///< one per worker, or one for all
  std::vector<int64_t> threads = {0};  ///< one per worker, or one for all; 0: the cores are divided equally
  // Strategies that share batches only:
  SharesJob shares;
  std::string gpu_exchange = "auto";
  // Strategies in lockstep only:
  int64_t min_workers = 0;   ///< processes without which the run ends; 0: all of them
  int64_t keep_steps = 100;  ///< with min_workers and a divided state: between copies of it
  // Strategies with parameter servers only:
  int64_t servers = 1;
  std::vector<std::string> server_addresses;
  int64_t server_replicas = 0;  ///< server_copies() says what 0 is
  double snapshot_seconds = 0;
  bool shared_memory = true;
};

struct OutputJob {
  std::string folder;  ///< empty: runs/NAME-N, where N is the first free number
  int64_t checkpoint_epochs = 1;
  int64_t checkpoint_steps = 0;
  int64_t checkpoint_messages = 0;
  double checkpoint_minutes = 0;
  int64_t keep = 2;
  std::string storage;           ///< where checkpoints are stored, too (RunStorage); empty: nowhere
  std::string after_checkpoint;  ///< a command of the shell; empty: none
  bool tensorboard = true;
  int64_t log_steps = 1;
};

/// Where `telar launch` runs the job.
struct LaunchJob {
  std::string on = "local";
  int64_t processes = 0;  ///< 0: one on each place
  int64_t restarts = 3;   ///< of a run that has failed
  std::string program;    ///< the path of telar on the hosts; empty: that of `telar launch`
  // ssh only:
  std::vector<std::string> hosts;  ///< HOST or HOST:PLACES
  std::string host_file;
  std::string ssh = "ssh";  ///< the program and its options
  // Slurm only:
  int64_t nodes = 0;  ///< of a batch job that is submitted; 0: none is
  std::string partition;
  // Ray only:
  std::string address = "auto";    ///< of the cluster
  std::string python = "python3";  ///< that has Ray
  // Ray and Kubernetes only:
  int64_t cpus = 0;  ///< of each place; 0: a node is one place, or one of any number
  // Kubernetes only:
  std::string image;
  int64_t gpus = 0;    ///< of each process that trains
  std::string memory;  ///< of each pod; empty: no limit
};

/// A job: the complete input of `telar train`. Written in YAML (docs/job.md) and read by job_reader.h.
struct Job {
  std::string name;
  ModelJob model;
  DataJob data;
  LossJob loss;
  OptimizerJob optimizer;
  ScheduleJob schedule;
  TrainingJob training;
  StrategyJob strategy;
  OutputJob output;
  LaunchJob run;
};

}  // namespace telar
