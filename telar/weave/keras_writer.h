#pragma once

#include <set>
#include <string>
#include <vector>

#include "telar/weave/dialect.h"
#include "telar/weave/keras_program.h"

namespace telar::weave {

/// What the writers of the parts of a Keras program share.
struct KerasWeaving {
  const Names& names;
  const KerasProgram& program;
  Edits& edits;
  Dialect& dialect;
  /// Expressions of datasets that are shared out; what lies downstream of one is a process's own part.
  std::set<const Node*> shared = {};
  /// Random numbers decide which samples a process gets, so all must draw the same.
  bool draws_alike = false;

  std::string text(const Node& node) const { return std::string(names.tree().text(node)); }
  [[noreturn]] void refuse(const Node* node, const std::string& decision) const {
    throw Refusal{node->line, text(*node), decision};
  }
  /// Each process takes batches of the script's size, so that a step sees that many times the samples.
  bool grows() const { return !dialect.choices().keep_global_batch; }
  bool shares_samples() const { return !dialect.choices().divide_epochs; }
  /// Steps of the optimizer are fewer than the script counts: by the number of processes.
  bool has_fewer_steps() const { return grows(); }
  /// What the file that `at` is in calls the module keras.optimizers or another of Keras: `tf.keras.optimizers`.
  std::string keras_module(const std::string& part, const Node* at) const;
  /// What it calls tensorflow.
  std::string tensorflow(const Node* at) const;
};

/// Writes the parallel form of a Keras program for Horovod or tf.distribute. Throws Refusal.
void write_keras(const Names& names, const KerasProgram& program, const Choices& choices, Edits& edits);

void write_keras_devices(KerasWeaving& weaving);     // one GPU a process, in the forms of TensorFlow 1 and 2
void write_keras_optimizers(KerasWeaving& weaving);  // learning rates, schedules, distributed optimizers
void write_keras_fits(KerasWeaving& weaving);        // data, epochs, verbosity
void write_keras_callbacks(KerasWeaving& weaving, const KerasCall& fit);
void write_keras_tapes(KerasWeaving& weaving);     // loops with a GradientTape, for Horovod
void write_keras_replicas(KerasWeaving& weaving);  // the same for tf.distribute
void write_keras_outputs(KerasWeaving& weaving);   // what models and checkpoints write
void write_keras_scope(KerasWeaving& weaving);     // tf.distribute: variables are made under the strategy

/// The calls that take a tape's gradients.
std::vector<const Node*> gradients_of(const KerasWeaving& weaving, const KerasTape& tape);
/// Whether they are those of a model's variables; gradients with respect to inputs (a penalty, a saliency map) are each
/// process's own.
bool trains(const KerasWeaving& weaving, const KerasTape& tape);
/// `optimizer.apply_gradients(…)`
bool is_apply(const Node* call);
/// The object of keras.metrics that a call feeds, as in `metric(…)`, `metric.update_state(…)`; null when it feeds none.
const Node* fed_metric(const KerasWeaving& weaving, const Node* call);
/// Whether what made a metric is fed in a loop that trains.
bool counts_training(const KerasWeaving& weaving, const Node* made);

/// Shares out what a training takes its batches from, and with --global-batch keep divides its batches. Returns whether
/// it is batched already, so that `fit` has no say in it.
void share_dataset(KerasWeaving& weaving, const Node* expression);
/// Whether a number is computed from the length of a dataset that is shared out, and is smaller already.
bool counts_shared(const KerasWeaving& weaving, const Node* expression);
/// tf.distribute: the call saves to `path` on the chief, into a temporary folder on other workers.
void save_on_chief(KerasWeaving& weaving, const Node* call, const Node* path);
/// A learning rate: multiplied; a schedule: its rates multiplied, its steps divided.
void scale_keras_rate(KerasWeaving& weaving, const Node* rate);

}  // namespace telar::weave
