#include "telar/train/job_checks.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/source.h"
#include "telar/graph/op.h"
#include "telar/io/disk.h"
#include "telar/strategy/strategy.h"
#include "telar/train/job_devices.h"
#include "telar/train/job_strategy.h"
#include "telar/train/job_stream.h"
#include "telar/train/job_value.h"

namespace telar {

namespace {

using Where = std::function<std::string(const std::string& key)>;

constexpr size_t kLongestRunName = 100;

bool is_name_character(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalnum(byte) != 0 || byte >= 0x80 ||
         std::string_view("_.-+=@,() ").find(c) != std::string_view::npos;
}

void check_name(const std::string& name, const Where& where) {
  if (name.empty() || is_run_name(name)) return;
  throw user_error(
      "{}: name is {}, and runs are stored in runs/NAME-N; it must consist of at most {} letters, digits, spaces and _.-+=@,() and begin with a letter, a digit or _",
      where("name"), value_text(name), kLongestRunName);
}

/// Checks of options that have the same meaning for all sources.
void check_common_options(const DataJob& data, const Where& where) {
  const Attributes& options = data.options;
  if (options.has("shape")) {
    try {
      TensorType{DType::f32, Shape(options.integers("shape"))}.bytes();
    } catch (const Error& error) {
      throw user_error("{}: data.shape is too large: {}", where("data.shape"), error.what());
    }
  }
  if (data.test > 0 && !options.text_or("test_path", "").empty()) {
    throw user_error("{}: data.test is {}, and data.test_path is set too; give only one of the two",
                     where("data.test"), data.test);
  }
  if (data.mixing == "by_label" && source_type(data.source).labels_positions) {
    throw user_error(
        "{}: data.mixing is by_label, but a sample of {} has a label for each position and no class of its own; leave data.mixing out",
        where("data.mixing"), data.source);
  }
  if (data.mixing == "by_label" && options.has("classes") && options.integer("classes") == 0) {
    throw user_error(
        "{}: data.mixing is by_label, but data.classes is 0; without classes there are no labels",
        where("data.mixing"));
  }
}

void check_paths(const SourceType& type, const Attributes& options, const Where& where) {
  for (const std::string& path : type.paths) {
    try {
      require_local(options.text(path));
    } catch (const Error& error) {
      throw user_error("{}: data.{}: {}", where("data." + path), path, error.what());
    }
  }
}

void check_split(const DataJob& data, const Where& where) {
  const bool has_columns = data.options.has("split_column");
  const bool by_column = has_columns && !data.options.text("split_column").empty();
  const bool needs = data.split == "group" || data.splits_by_column();
  const bool by_class = source_type(data.source).file_each;  // the order of the samples
  const bool positions = source_type(data.source).labels_positions;
  if (needs && !has_columns)
    throw user_error("{}: data.split is {}, but samples of {} have no columns; choose random{}",
                     where("data.split"), data.split, data.source,
                     by_class    ? " or stratified"
                     : positions ? " or time"
                                 : ", stratified or time");
  if (data.split == "stratified" && positions)
    throw user_error(
        "{}: data.split is stratified, but a sample of {} has a label for each position and no class of its own; choose random or time",
        where("data.split"), data.source);
  if (data.split == "time" && by_class)
    throw user_error(
        "{}: data.split is time, but samples of {} are in the order of their classes; choose random or stratified",
        where("data.split"), data.source);
  if (needs && !by_column)
    throw user_error("{}: data.split is {}; data.split_column must name the column", where("data.split"),
                     data.split);
  if (by_column && !needs && data.split != "time")
    throw user_error("{}: data.split_column is given, but data.split is {}; it must be group, time or column",
                     where("data.split_column"), data.split);
  if (data.folds == 1)
    throw user_error("{}: data.folds is 1; at least 2 are needed, so that others are left to train on",
                     where("data.folds"));
  if (data.folds > 0 && data.splits_by_column())
    throw user_error("{}: data.folds is {}, but with data.split: column a column names the parts",
                     where("data.folds"), data.folds);
  if (data.fold > std::max<int64_t>(1, data.folds))
    throw user_error("{}: data.fold is {}, but there are {} folds (data.folds)", where("data.fold"),
                     data.fold, data.folds);
  if (data.test > 0 && data.splits_by_column())
    throw user_error("{}: data.test is {}, but with data.split: column a column names the parts",
                     where("data.test"), data.test);
  const bool targets = data.options.has("targets") && !data.options.texts("targets").empty();
  if (data.split == "stratified" && data.options.has("classes") &&
      (targets || data.options.integer("classes") == 0))
    throw user_error(
        "{}: data.split is stratified, but the labels are numbers (data.classes: 0); without classes, choose another",
        where("data.split"));
}

void check_data(const DataJob& data, const Where& where) {
  const SourceType& type = source_type(data.source);
  try {
    if (type.check) type.check(data.options);
  } catch (const OptionError& error) {
    throw user_error("{}: {}", where("data." + error.option()), error.what());
  }
  check_paths(type, data.options, where);
  check_common_options(data, where);
  check_split(data, where);
  if (data.validation + data.test >= 1) {
    throw user_error("{}: data.validation and data.test add up to {}; they must leave samples for training",
                     where("data.validation"), data.validation + data.test);
  }
  if (data.mean.size() != data.std.size()) {
    throw user_error("{}: data.mean has {} numbers, but data.std has {}; they must be given together",
                     where("data.mean"), data.mean.size(), data.std.size());
  }
}

/// Of samples of which no process has all.
void check_spread(const Job& job, const Where& where) {
  if (uses_servers(job)) {
    throw user_error(
        "{}: data.spread is true, but strategy {} gives any batch to any worker, so each worker needs all samples; choose {}",
        where("data.spread"), job.strategy.name, strategies_that_share_batches());
  }
  if (job.data.split != "random") {
    throw user_error(
        "{}: data.split is {}, but data.spread is true, and no process has all samples; each part is divided at random",
        where("data.split"), job.data.split);
  }
  if (job.data.mixing == "by_label") {
    throw user_error(
        "{}: data.mixing is by_label, but data.spread is true, and no process has all samples to sort them; leave data.mixing out",
        where("data.mixing"));
  }
}

void check_loss(const Job& job, const Where& where) {
  if (job.loss.balanced && (trains_on_stream(job.data) || job.data.spread))
    throw user_error(
        "{}: loss.balanced is true, which counts the training samples of each class, but no process has them all; give loss.class_weights",
        where("loss.balanced"));
  if (job.loss.name == "binary_cross_entropy" && trains_on_stream(job.data))
    throw user_error(
        "{}: loss is binary_cross_entropy, whose labels must be 0 to 1, and those of a stream are not checked; choose cross_entropy with data.classes 2",
        where("loss.name"));
  if (job.training.label_smoothing > 0 && job.loss.name != "auto" && job.loss.name != "cross_entropy")
    throw user_error("{}: training.label_smoothing is {}, but loss is {}; only cross_entropy has it",
                     where("training.label_smoothing"), job.training.label_smoothing, job.loss.name);
}

void check_metrics(const Job& job, const Where& where) {
  const std::vector<std::string>& metrics = job.training.metrics;
  for (const std::string& metric : metrics) {
    if (std::ranges::count(metrics, metric) > 1)
      throw user_error("{}: training.metrics names {} twice", where("training.metrics"), metric);
    if ((metric == "auc" || metric == "confusion_matrix") && trains_on_stream(job.data))
      throw user_error(
          "{}: training.metrics contains {}, whose counts a stream would keep for each part of its window; leave it out",
          where("training.metrics"), metric);
  }
}

void check_plateau(const Job& job, const Where& where) {
  const std::string place = where("schedule.name");
  if (uses_servers(job))
    throw user_error(
        "{}: schedule.name is plateau, but the workers of strategy {} take the learning rate from the step alone; choose another schedule",
        place, job.strategy.name);
  if (trains_on_stream(job.data))
    throw user_error(
        "{}: schedule.name is plateau, which needs validation samples; source {} sets none aside", place,
        job.data.source);
  if (!job.data.validates())
    throw user_error("{}: schedule.name is plateau, which needs validation samples, but data.validation is 0",
                     place);
  if (job.schedule.gamma >= 1)
    throw user_error("{}: schedule.gamma is {}, but a plateau lowers the rate: it must be below 1",
                     where("schedule.gamma"), job.schedule.gamma);
  if (job.schedule.minimum > job.optimizer.learning_rate)
    throw user_error("{}: schedule.minimum is {}, above the learning rate {}", where("schedule.minimum"),
                     job.schedule.minimum, job.optimizer.learning_rate);
}

void check_training(const Job& job, const Where& where) {
  check_metrics(job, where);
  check_loss(job, where);
  if (job.training.early_stopping_patience > 0 && !job.data.validates() && !trains_on_stream(job.data)) {
    throw user_error("{}: early stopping requires validation samples, but data.validation is 0",
                     where("training.early_stopping.patience"));
  }
  if (job.schedule.name == "cosine" &&
      job.schedule.warmup_epochs >= static_cast<double>(job.training.epochs)) {
    throw user_error("{}: a warm-up of {} epochs does not fit into a training of {}; it must be shorter",
                     where("schedule.warmup_epochs"), job.schedule.warmup_epochs, job.training.epochs);
  }
  if (job.schedule.name == "plateau") check_plateau(job, where);
  if (job.schedule.scale != "none" && job.training.batch_per != "worker") {
    throw user_error(
        "{}: schedule.scale is {}, but the batch does not grow with the number of workers; set training.batch_per to worker, or do not scale the rate",
        where("schedule.scale"), job.schedule.scale);
  }
  if (job.training.convolution == "winograd" && job.training.precision != "f32") {
    throw user_error("{}: training.convolution is winograd, which requires f32, but training.precision is {}",
                     where("training.convolution"), job.training.precision);
  }
  if (job.training.top_k.empty()) {
    throw user_error("{}: training.top_k is empty; it must contain at least one number",
                     where("training.top_k"));
  }
}

std::vector<std::string> elastic_strategies() {
  return strategy_names([](const StrategyType& type) { return type.elastic; });
}

void check_elastic(const Job& job, const Where& where) {
  if (job.strategy.elastic.min == 0) return;
  const std::string key = "strategy." + type_of(job.strategy).count;
  if (!type_of(job.strategy).elastic)
    throw user_error(
        "{}: {} has limits, but the workers of strategy {} make each step together, so their number cannot change; give a number, or choose {}",
        where(key), key, job.strategy.name, one_of(elastic_strategies()));
  if (!trains_on_stream(job.data))
    throw user_error(
        "{}: {} has limits, and the number of workers follows the lag of a stream, but data.source is {}; give a number",
        where(key), key, job.data.source);
}

void check_min_workers(const Job& job, const Where& where) {
  if (job.strategy.min_workers == 0) return;
  const StrategyJob& strategy = job.strategy;
  const bool listed =
      workers_of(strategy).of_all_processes && (strategy.devices.size() > 1 || strategy.threads.size() > 1);
  const std::string why = has_gpu(strategy) ? "GPUs have steps under way that cannot be taken back"
                          : listed ? "strategy.devices or strategy.threads names one for each worker, and "
                                     "the number of workers follows that of processes"
                          : job.data.spread ? "data.spread is true, so its samples would be missing"
                          : trains_on_stream(job.data)
                              ? "the samples are a stream, of which it has read messages"
                              : "";
  if (!why.empty())
    throw user_error(
        "{}: strategy.min_workers is {}, but the run cannot go on without a process that is lost: {}; leave it out",
        where("strategy.min_workers"), job.strategy.min_workers, why);
}

void check_output(const Job& job, const Where& where) {
  const OutputJob& output = job.output;
  if (output.checkpoint_steps > 0 && output.checkpoint_messages > 0)
    throw user_error(
        "{}: output.checkpoint_steps is {}, and output.checkpoint_messages is set too; give only one of the two",
        where("output.checkpoint_messages"), output.checkpoint_steps);
}

/// Loss and metrics of a model file are in the file.
void check_model_file(const Job& job, const Where& where) {
  const auto refuse = [&](const std::string& key) {
    throw user_error(
        "{}: {} is given, but the model is a file, whose graphs contain loss and metrics; leave it out",
        where(key), key);
  };
  const LossJob& loss = job.loss;
  if (loss.name != "auto") refuse("loss.name");
  if (!loss.class_weights.empty()) refuse("loss.class_weights");
  if (loss.balanced) refuse("loss.balanced");
  if (job.training.label_smoothing != 0) refuse("training.label_smoothing");
  if (job.training.top_k != TrainingJob{}.top_k) refuse("training.top_k");
  if (!job.training.metrics.empty()) refuse("training.metrics");
}

void check_servers(const Job& job, const Where& where) {
  if (job.output.checkpoint_minutes > 0)
    throw user_error(
        "{}: with strategy {}, all workers must have finished their steps for a checkpoint, so it comes after a number of steps; set output.checkpoint_steps",
        where("output.checkpoint_minutes"), job.strategy.name);
  if (job.strategy.server_replicas > 1 && job.strategy.snapshot_seconds > 0)
    throw user_error(
        "{}: servers with copies (strategy.server_replicas: {}) keep no snapshots; leave strategy.snapshot_seconds out",
        where("strategy.snapshot_seconds"), job.strategy.server_replicas);
  if (job.training.clip_norm == 0) return;
  throw user_error(
      "{}: training.clip_norm needs the norm over all parameters, which strategy {} divides among servers; leave it out, or choose {}",
      where("training.clip_norm"), job.strategy.name, strategies_that_share_batches());
}

void check_devices(const Job& job, const Where& where) {
  const StrategyJob& strategy = job.strategy;
  const std::string place = where("strategy.devices");
  if (strategy.devices.empty())
    throw user_error("{}: strategy.devices is empty; give at least one, such as cpu", place);
  for (const std::string& name : strategy.devices) {
    try {
      const DeviceSpec device = device_named(name);
      if (!type_of(strategy).on_gpus && device.kind != "cpu")
        throw user_error("the {} of strategy {} run on CPUs, not on {}; choose {} to train on GPUs",
                         worker_word(strategy, 2), strategy.name, name, data_parallel_type().name);
    } catch (const Error& error) {
      throw user_error("{}: {}", place, error.what());
    }
  }
  if (has_gpu(strategy) && job.training.convolution == "winograd") {
    throw user_error(
        "{}: training.convolution is winograd, which only CPUs support, but strategy.devices contains a GPU",
        where("training.convolution"));
  }
  if (job.training.precision == "tf32" && has_processor(strategy)) {
    throw user_error("{}: training.precision is tf32, which only GPUs support; CPUs support f32 and bf16",
                     where("training.precision"));
  }
  const auto given = static_cast<int64_t>(strategy.devices.size());
  const int64_t workers = all_workers_of(strategy);
  if (given == 1 || given == workers) return;
  if (type_of(strategy).count.empty())
    throw user_error("{}: there are {} devices, but strategy {} uses only one; choose {}", place, given,
                     strategy.name, strategies_that_share_batches());
  throw user_error("{}: there are {} devices for {} {}; name one for all of them, or one for each", place,
                   given, workers, worker_word(strategy, workers));
}

void check_options(const StrategyJob& strategy, const Where& where) {
  const auto& check = type_of(strategy).check;
  try {
    if (check) check(strategy.options, static_cast<int>(strategy.servers));
  } catch (const OptionError& error) {
    throw user_error("{}: {}", where("strategy." + error.option()), error.what());
  }
}

void check_strategy(const StrategyJob& strategy, const Where& where) {
  const int64_t workers = all_workers_of(strategy);
  const auto given = static_cast<int64_t>(strategy.threads.size());
  if (given != 1 && given != workers) {
    throw user_error("{}: strategy.threads has {} numbers, but there {} {} {}", where("strategy.threads"),
                     given, workers == 1 ? "is" : "are", workers, worker_word(strategy, workers));
  }
  const auto zeros = std::count(strategy.threads.begin(), strategy.threads.end(), 0);
  if (given > 1 && zeros > 0) {
    throw user_error("{}: a {} has 0 threads; each needs at least 1", where("strategy.threads"),
                     worker_word(strategy, 1));
  }
  for (size_t r = 0; r < static_cast<size_t>(workers); ++r) {
    const DeviceSpec device = device_named(device_of(strategy, r));
    const int64_t threads = strategy.threads[given == 1 ? 0 : r];
    if (!device.cores.empty() && threads > 0 && threads != device.threads) {
      throw user_error(
          "{}: strategy.threads is {}, but {} has one thread for each of its {} cores; give only one of the two",
          where("strategy.threads"), threads, device_of(strategy, r), device.cores.size());
    }
  }
  check_options(strategy, where);
  if (strategy.shares.mode != "list") return;
  const auto& weights = strategy.shares.weights;
  if (static_cast<int64_t>(weights.size()) != workers) {
    throw user_error("{}: strategy.shares has {} numbers, but there are {} {}", where("strategy.shares"),
                     weights.size(), workers, worker_word(strategy, workers));
  }
  if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; })) {
    throw user_error("{}: all strategy.shares are 0; at least one must be above 0", where("strategy.shares"));
  }
}

}  // namespace

bool is_run_name(std::string_view name) {
  if (name.empty() || name.size() > kLongestRunName || name.back() == ' ') return false;
  const auto first = static_cast<unsigned char>(name.front());
  return (std::isalnum(first) != 0 || first == '_' || first >= 0x80) &&
         std::all_of(name.begin(), name.end(), is_name_character);
}

std::string run_name_of(const std::filesystem::path& file) {
  std::string name = file.stem().string();
  if (name.empty()) name = "_";  // of "/"
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !is_name_character(c); }, '_');
  if (name.size() > kLongestRunName) {
    size_t end = kLongestRunName;
    while (end > 0 && (name[end] & 0xC0) == 0x80) --end;  // not within a UTF-8 character
    name.resize(end);
  }
  if (!is_run_name(name)) {
    name.front() = '_';
    name.back() = '_';
  }
  return name;
}

void fill_in_defaults(Job& job) {
  job.strategy.options =
      completed("strategy '" + job.strategy.name + "'", type_of(job.strategy).options, job.strategy.options);
  if (job.optimizer.learning_rate == kNotGiven) {
    job.optimizer.learning_rate = job.optimizer.name.starts_with("adam") ? 0.001 : 0.01;
  }
  if (job.optimizer.epsilon == kNotGiven)
    job.optimizer.epsilon = job.optimizer.name == "adagrad" ? 1e-10 : 1e-8;
  if (job.schedule.warmup_rate == kNotGiven) {
    job.schedule.warmup_rate = job.schedule.scale == "none" ? 0 : job.optimizer.learning_rate;
  }
  job.data.loss = job.loss.name;
  if (trains_on_stream(job.data)) {  // nothing is set aside or put into another order
    job.data.validation = 0;
    job.data.shuffle = false;
  }
  job.data.options =
      completed("source '" + job.data.source + "'", source_type(job.data.source).options, job.data.options);
}

void check_job(const Job& job, const Where& where) {
  check_name(job.name, where);
  check_data(job.data, where);
  check_training(job, where);
  check_devices(job, where);
  check_strategy(job.strategy, where);
  check_output(job, where);
  if (uses_servers(job)) check_servers(job, where);
  check_elastic(job, where);
  check_min_workers(job, where);
  if (!job.model.file.empty()) check_model_file(job, where);
  if (trains_on_stream(job.data)) check_stream_keys(job, where);
  if (job.data.spread) check_spread(job, where);
}

}  // namespace telar
