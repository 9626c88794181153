#pragma once

#include "telar/weave/dialect.h"
#include "telar/weave/torch_program.h"

namespace telar::weave {

/// What the writers of the parts of a PyTorch program share.
struct TorchWeaving {
  const Names& names;
  const TorchProgram& program;
  Edits& edits;
  Dialect& dialect;
  /// What the file that a node is in calls tensorflow, when the sums are over loops of TensorFlow; empty for PyTorch.
  std::function<std::string(const Node*)> tensorflow = {};
  bool gpu = false;  ///< uses_gpu(names)

  std::string text(const Node& node) const { return std::string(names.tree().text(node)); }
  [[noreturn]] void refuse(const Node* node, const std::string& decision) const {
    throw Refusal{node->line, text(*node), decision};
  }
  /// Whether the values of an expression change with the batch: it is in a loop over a loader and built on its targets.
  bool calls_model(const Node* node) const;
};

/// Writes the parallel form of a PyTorch program for DDP or Horovod. Throws Refusal.
void write_torch(const Names& names, const TorchProgram& program, const Choices& choices, Edits& edits);

void write_devices(TorchWeaving& weaving);  // one GPU a process
void write_models(TorchWeaving& weaving);   // DistributedDataParallel, or Horovod's optimizer and broadcasts
void write_horovod(TorchWeaving& weaving);
void write_loaders(TorchWeaving& weaving);             // samplers, batch sizes, downloads
void write_epochs(TorchWeaving& weaving);              // set_epoch, seeds that differ
void write_rates(TorchWeaving& weaving);               // learning rates and schedules
void write_warm_up(TorchWeaving& weaving);             // --warmup: the rate grows over the first epochs
void write_divided(TorchWeaving& weaving);             // --epochs divide: fewer epochs, each over all samples
void write_metrics(TorchWeaving& weaving);             // sums over the samples of all processes
void write_evaluation(TorchWeaving& weaving);          // --evaluation shared
void check_control_flow(const TorchWeaving& weaving);  // no process may leave a loop alone

/// Whether a loop evaluates, and each process takes every n-th of its batches.
bool is_shared_evaluation(const TorchWeaving& weaving, const TorchLoop& loop);
/// Whether a node is run where gradients are computed: in a training loop or a function that one calls, and not under no_grad.
bool computes_gradients(const TorchWeaving& weaving, const Node* node);
/// Refuses a method of a wrapped model that applies layers around the wrapper's forward: it would train without averaging.
void check_method(const TorchWeaving& weaving, const Node* attribute);

/// Whether the script may put anything on a GPU.
bool uses_gpu(const Names& names);

/// Where a training loop is entered from: itself, then the calls of the functions around it, outwards.
std::vector<const Node*> way_out(const Names& names, const Node* loop);
/// The nearest loop around a node within its function; null when there is none.
const Node* loop_around(const Node* node);
/// The variable that counts in a loop, `for epoch in range(9)` or `while …: epoch += 1`; empty when none does.
std::string_view counter_of(const Names& names, const Node* loop);
/// The loops over epochs that a training loop runs in, followed through all calls of its function: of each way the nearest
/// loop that counts.
std::vector<const Node*> epoch_loops(const Names& names, const TorchLoop& loop);
/// Whether a schedule goes on with every batch.
bool steps_each_batch(const TorchWeaving& weaving, const Node* scheduler);
/// Where the script sets the rate of an optimizer's parameters itself, `group["lr"] = …`: the subscripts.
std::vector<const Node*> rates_by_hand(const Names& names);

}  // namespace telar::weave
