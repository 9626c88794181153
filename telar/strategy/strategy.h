#pragma once

#include <functional>
#include <memory>
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

/// Rewrites a sequential training step as a parallel program: a pure function of the step, the cluster and
/// measurements. Lower and higher floors do not know which strategy is in use.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// `costs`: for a strategy that asks for them with measured_micro_batches(); empty: estimates. Throws Error
  /// (user) if the step or the cluster does not suit the strategy.
  virtual Program rewrite(const TrainingStep& step, const Cluster& cluster,
                          const std::vector<OperationCost>& costs = {}) const = 0;

  /// The number of micro-batches with which operations are to be timed before rewrite(); 0 if the strategy
  /// needs no times.
  virtual int64_t measured_micro_batches(const TrainingStep& /*step*/, const Cluster& /*cluster*/) const {
    return 0;
  }
};

/// A strategy as it describes itself. The keys of a job, their checks and their documentation, `compare`,
/// `scaling` and --help are made from these descriptions.
struct StrategyType {
  std::string name;
  std::string summary;                  ///< what it does, as a phrase after its name
  std::string worker = "replica";       ///< what it calls one of its workers
  std::string count;                    ///< the option that is the number of workers; empty: there is one
  std::vector<std::string> times = {};  ///< options by which the number of workers is multiplied
  /// The option by which several workers compute the same samples, one after the other; empty: none do.
  std::string in_line = {};
  /// The number of workers is that of all processes together, not of each.
  bool of_all_processes = false;
  bool divides_state = false;   ///< processes keep only parts of the state, at best an equal share each
  bool shares_batches = false;  ///< each worker of a process takes a share of every batch
  bool uses_servers = false;    ///< workers are processes that exchange through parameter servers
  bool elastic = false;         ///< the number of workers may change while they train
  bool on_gpus = true;
  std::vector<Option> options = {};
  std::function<std::unique_ptr<Strategy>(const Attributes& options)> make;  ///< all options are given
  /// How the workers work together, for these options. Absent: in lockstep.
  std::function<Cooperation(const Attributes& options)> cooperation = {};
  /// Throws OptionError if the options do not suit each other; absent: they always do. `servers`: the number
  /// of parameter servers.
  std::function<void(const Attributes& options, int servers)> check = {};
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

/// The strategy of one device, and the one whose workers share batches, for those who need replicas and do
/// not choose a strategy.
const StrategyType& sequential_type();
const StrategyType& data_parallel_type();

/// The strategy with this name and these options. Throws Error (user) for an unknown name, and for options
/// that it does not have or that have wrong values; options that are not given have their defaults.
std::unique_ptr<Strategy> make_strategy(const std::string& name, const Attributes& options = {});
/// The number of workers of a strategy with these options: of each process, or
/// StrategyType::of_all_processes.
int64_t worker_count(const StrategyType& type, const Attributes& options);
/// How the workers of a strategy with these options work together.
Cooperation cooperation_of(const StrategyType& type, const Attributes& options);

/// A program without workers that trains `step`: its parameters in the order in which gradients become ready.
Program program_of(const TrainingStep& step, const std::string& strategy);
/// The step as it is, on the first device of the cluster.
Program sequential_program(const TrainingStep& step);

}  // namespace telar
