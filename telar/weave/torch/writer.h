#pragma once

#include <map>
#include <set>

#include "telar/weave/torch/program.h"
#include "telar/weave/write/dialect.h"

namespace telar::weave {

/// The state that the writers of a PyTorch program share.
struct TorchWeaving {
  const Names& names;
  const TorchProgram& program;
  Edits& edits;
  Dialect& dialect;
  /// The name of the tensorflow module in the file of a node, if the loops are TensorFlow's; empty for
  /// PyTorch.
  std::function<std::string(const Node*)> tensorflow = {};
  bool gpu = false;  ///< uses_gpu(names)
  /// Statements that only the first process of a host runs, with all that they write.
  std::vector<const Node*> prepared = {};
  /// `count += …`, which adds up what all processes count in each step.
  std::set<const Node*> counted = {};
  /// Calls that draw random numbers, for which all processes take those of the first.
  std::set<const Node*> agreed = {};
  mutable std::map<const Node*, std::set<const Node*>> called = {};  ///< by loop: see called_in()

  std::string text(const Node& node) const { return std::string(names.tree().text(node)); }
  [[noreturn]] void refuse(const Node* node, const std::string& decision) const {
    throw Refusal{node->line, text(*node), decision};
  }
  /// Whether a call applies a model that an optimizer updates. A call of a function of the program does not
  /// count.
  bool calls_model(const Node* node) const;
  /// The functions of the program that a loop calls, by itself or through others.
  const std::set<const Node*>& called_in(const Node* loop) const;
};

/// Writes the parallel form of a PyTorch program for DDP or Horovod. Throws Refusal.
void write_torch(const Names& names, const TorchProgram& program, const Choices& choices, Edits& edits);
/// Writes a PyTorch program whose steps Telar's engine makes. Throws Refusal.
void write_torch_telar(const Names& names, const TorchProgram& program, const Choices& choices, Edits& edits);

void write_devices(TorchWeaving& weaving);  // one GPU for each process
void write_models(TorchWeaving& weaving);   // DistributedDataParallel, or Horovod's optimizer and broadcasts
void write_horovod(TorchWeaving& weaving);
void write_buffers(TorchWeaving& weaving);            // running statistics, before an evaluation
void write_repeated_backward(TorchWeaving& weaving);  // DDP: several backward passes after one forward pass
/// Whether several backward passes of a script precede one step of an optimizer.
bool has_repeated_backward(TorchWeaving& weaving);
void write_preparation(TorchWeaving& weaving);  // downloads, archives, files that are made once
void write_sets(TorchWeaving& weaving);         // the order of their elements
void write_loaders(TorchWeaving& weaving);      // samplers, batch sizes
void write_epochs(TorchWeaving& weaving);       // set_epoch
/// The expression for the number of another order of the samples, where the epoch is not known. Each process
/// counts the orders in the same way.
std::string next_order(TorchWeaving& weaving, const Node* at);
void write_seeds(TorchWeaving& weaving);                // random numbers
void write_rates(TorchWeaving& weaving);                // learning rates and schedules
void check_summed_losses(const TorchWeaving& weaving);  // --global-batch keep: no sums over the batch
void write_warm_up(TorchWeaving& weaving);              // --warmup: the rate grows over the first epochs
void write_divided(TorchWeaving& weaving);             // --epochs divide: fewer epochs, each over all samples
void write_counts(TorchWeaving& weaving);              // of samples, from which the rate is computed
void write_metrics(TorchWeaving& weaving);             // sums over the samples of all processes
void write_last_values(TorchWeaving& weaving);         // numbers of a batch that outlive their loop
void write_meters(TorchWeaving& weaving);              // objects of the script that add up numbers
void write_step_logs(TorchWeaving& weaving);           // numbers that functions of a step collect
void check_shares(const TorchWeaving& weaving);        // steps without a loader
void write_shares(TorchWeaving& weaving);              // their samples, and the means of their losses
void check_loader_uses(const TorchWeaving& weaving);   // what takes batches but is no loop
void write_evaluation(TorchWeaving& weaving);          // --evaluation shared
void check_control_flow(const TorchWeaving& weaving);  // no process may leave a loop alone

/// The function that adds up a number or tensor over the processes, and the one that joins their lists. Adds
/// them to the file of `at`; returns their names.
std::string sum_over_ranks(TorchWeaving& weaving, const Node* at);
std::string gather_over_ranks(TorchWeaving& weaving, const Node* at);
/// The function that returns the first process's value of an object. Adds it to the file of `at`; returns
/// its name.
std::string of_first_rank(TorchWeaving& weaving, const Node* at);
/// The function that averages the gradients of an optimizer's parameters over the processes. Adds it to the
/// file of `at`; returns its name.
std::string average_gradients(TorchWeaving& weaving, const Node* at);
/// The expression for the mean of a number or tensor over the processes.
std::string mean_over_ranks(TorchWeaving& weaving, const Node* at, const std::string& value);

/// Numbers that weave cannot join, for the given reason. With --only-training they stay as they are, and the
/// user is told, if they are only shown. Otherwise throws Refusal. `container`: the variable or attribute
/// that has them.
void leave_numbers(TorchWeaving& weaving, const Node* node, const Node& container, const std::string& reason);

/// Whether each process takes only every n-th batch of this evaluation loop.
bool is_shared_evaluation(const TorchWeaving& weaving, const TorchLoop& loop);
/// Whether gradients are computed at a node: it is in a training loop or in a function that one calls, and
/// not under no_grad.
bool computes_gradients(const TorchWeaving& weaving, const Node* node);
/// Whether a training step applies layers by a method of the model (`model.encode(x)`), without the wrapper's
/// forward(): their gradients would not be averaged. `attribute`: the method, or the layer that has it.
bool bypasses_forward(const TorchWeaving& weaving, const Node* attribute);

/// Whether a node may be run for a sample, in a worker process of a loader, which belongs to no group: in a
/// method of a dataset, or in a function that one calls or passes on (`pool.map(load, files)`).
bool is_in_worker(const Names& names, const Node* node, int depth = 5);

/// Why a training step may leave parameters of a model without a gradient; empty if weave knows no reason.
std::string unused_parameters(const TorchWeaving& weaving, const TorchModel& model);

/// Whether the script may use a GPU.
bool uses_gpu(const Names& names);

/// The training loop, then the call of the function that contains it, then the call of the function that
/// contains that call, and so on.
std::vector<const Node*> way_out(const Names& names, const Node* loop);
/// The nearest loop around a node within its function; null when there is none.
const Node* loop_around(const Node* node);
/// The counter of a loop, as in `for epoch in range(9)` or `while …: epoch += 1`; empty if there is none.
std::string_view counter_of(const Names& names, const Node* loop);
/// The loops over epochs around a training loop: for each chain of calls that leads to it, the nearest loop
/// with a counter.
std::vector<const Node*> epoch_loops(const Names& names, const TorchLoop& loop);
/// Whether a schedule is stepped with every batch.
bool steps_each_batch(const TorchWeaving& weaving, const Node* scheduler);
/// The subscripts by which the script itself sets the learning rate of an optimizer: `group["lr"] = …`.
std::vector<const Node*> rates_by_hand(const Names& names);

}  // namespace telar::weave
