#pragma once

#include <functional>
#include <string>
#include <vector>

#include "telar/core/option.h"
#include "telar/graph/program.h"

namespace telar {

/// Seconds that all operations of one kind in one layer take per step.
struct OperationCost {
  std::string scope;         ///< "layer1.0.conv1"
  std::string op;            ///< "conv2d_backward_data"
  double batch = 0;          ///< once, for the whole batch
  double micro_batches = 0;  ///< for all micro-batches, one after the other
};

/// The workers of a strategy with some options.
struct Workers {
  int64_t count = 1;              ///< without backups
  bool of_all_processes = false;  ///< `count` and `shares` are those of all processes together, not of each
  /// Into which these workers divide a batch. Fewer than workers where several compute the same samples, one
  /// after the other, or where each worker's batch is an update of its own.
  int64_t shares = 1;
  bool unequal = false;  ///< the shares of a process's workers may have different sizes
  int64_t states = 1;    ///< whole copies of parameters and optimizer state in a process
};

/// A strategy as it describes itself: a function that rewrites a sequential training step as a parallel
/// program, and facts. The keys of a job, their checks and their documentation, `compare`, `scaling` and
/// --help are made from these descriptions. Lower and higher floors do not know which strategy is in use.
///
/// All functions are pure, and get all options.
struct StrategyType {
  std::string name;
  std::string summary;             ///< what it does, as a phrase after its name
  std::string worker = "replica";  ///< what it calls one of its workers
  std::string count;               ///< the option that scales the number of workers; empty: there is one
  bool keeps_parts = false;        ///< processes keep only parts of the state, at best an equal share each
  bool uses_servers = false;       ///< workers are processes that exchange through parameter servers
  bool elastic = false;            ///< the number of workers may change while they train
  bool on_gpus = true;
  std::vector<Option> options = {};
  /// Absent: one worker.
  std::function<Workers(const Attributes& options)> workers = {};
  /// `costs`: for a strategy that asks for them with measured_micro_batches; empty: estimates. Throws Error
  /// (user) if the step or the cluster does not suit the strategy.
  std::function<Program(const TrainingStep& step, const Cluster& cluster, const Attributes& options,
                        const std::vector<OperationCost>& costs)>
      rewrite;
  /// The number of micro-batches with which operations are to be timed before `rewrite`; absent or 0: the
  /// strategy needs no times.
  std::function<int64_t(const TrainingStep& step, const Cluster& cluster, const Attributes& options)>
      measured_micro_batches = {};
  /// How the workers work together. Absent: in lockstep.
  std::function<Cooperation(const Attributes& options)> cooperation = {};
  /// Throws OptionError if the options do not suit each other; absent: they always do. `servers`: the number
  /// of parameter servers; 0: not known yet.
  std::function<void(const Attributes& options, int servers)> check = {};
};

/// A strategy and all of its options.
struct Strategy {
  const StrategyType& type;
  Attributes options;

  /// The program is verified (telar/strategy/verify.h).
  Program rewrite(const TrainingStep& step, const Cluster& cluster,
                  const std::vector<OperationCost>& costs = {}) const;
  int64_t measured_micro_batches(const TrainingStep& step, const Cluster& cluster) const;
  Workers workers() const;
  Cooperation cooperation() const;
};

/// Where the files of strategies/ add their strategies.
class StrategyRegistry {
 public:
  void add(StrategyType type) { types_.push_back(std::move(type)); }
  const std::vector<StrategyType>& types() const { return types_; }
  /// Those without servers first, and single workers before several.
  void sort();

 private:
  std::vector<StrategyType> types_;
};

/// All strategies.
const std::vector<StrategyType>& strategy_types();
/// Throws Error (user), with the nearest name, when there is none with this name.
const StrategyType& strategy_type(const std::string& name);
/// The names of the strategies for which `has(type)`; without it, of all.
std::vector<std::string> strategy_names(const std::function<bool(const StrategyType&)>& has = {});

/// The strategy of one device, and the one for those who need several and do not choose a strategy.
const StrategyType& sequential_type();
const StrategyType& data_parallel_type();

/// The strategy with this name and these options. Throws Error (user) for an unknown name, and for options
/// that it does not have, that have wrong values or do not suit each other; options that are not given have
/// their defaults.
Strategy make_strategy(const std::string& name, const Attributes& options = {});
/// The workers of a strategy whose options have their defaults.
Workers usual_workers(const StrategyType& type);

/// A program without workers that trains `step`: its parameters in the order in which gradients become ready.
Program program_of(const TrainingStep& step, const std::string& strategy);
/// The step as it is, on the first device of the cluster.
Program sequential_program(const TrainingStep& step);

}  // namespace telar
