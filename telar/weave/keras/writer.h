#pragma once

#include <set>
#include <string>
#include <vector>

#include "telar/weave/keras/program.h"
#include "telar/weave/write/dialect.h"

namespace telar::weave {

/// The state that the writers of a Keras program share.
struct KerasWeaving {
  const Names& names;
  const KerasProgram& program;
  Edits& edits;
  Dialect& dialect;
  /// Datasets that are divided among the processes; everything downstream of one is a process's own share.
  std::set<const Node*> shared = {};
  /// Random numbers decide which samples a process gets, so all processes must draw the same ones.
  bool draws_alike = false;
  /// All processes read the same generator or Sequence, and each takes its share of the batches.
  bool streams_alike = false;
  /// tf.distribute: the data come from Python, whose order each host would draw for itself.
  bool is_for_one_host = false;

  std::string text(const Node& node) const { return std::string(names.tree().text(node)); }
  [[noreturn]] void refuse(const Node* node, const std::string& decision) const {
    throw Refusal{node->line, text(*node), decision};
  }
  /// Whether each process takes batches of the script's size, so a step sees more samples by the number of
  /// processes.
  bool grows() const { return !dialect.choices().keep_global_batch; }
  bool shares_samples() const { return !dialect.choices().divide_epochs; }
  /// Whether the optimizer performs fewer steps than the script counts, by the number of processes.
  bool has_fewer_steps() const { return grows(); }
  /// The name of a Keras module in the file that contains `at`: `tf.keras.optimizers` for part "optimizers".
  std::string keras_module(const std::string& part, const Node* at) const;
  /// The name of the tensorflow module in that file.
  std::string tensorflow(const Node* at) const;
};

/// Writes the parallel form of a Keras program for Horovod or tf.distribute. Throws Refusal.
void write_keras(const Names& names, const KerasProgram& program, const Choices& choices, Edits& edits);

/// Lets Telar make the steps of a Keras program. Throws Refusal.
void write_keras_telar(const Names& names, const KerasProgram& program, const Choices& choices, Edits& edits);

void write_keras_backend(KerasWeaving& weaving);     // TensorFlow, for Keras 3
void write_keras_devices(KerasWeaving& weaving);     // one GPU for each process, for TensorFlow 1 and 2
void write_keras_optimizers(KerasWeaving& weaving);  // learning rates, schedules, distributed optimizers
void write_keras_seeds(KerasWeaving& weaving);       // random numbers
void write_keras_sets(KerasWeaving& weaving);        // the order of their elements
void write_keras_fits(KerasWeaving& weaving);        // data, epochs, verbosity
/// Whether an argument is left out, or None.
inline bool is_none(const Node* argument) {
  return argument == nullptr || argument->literal == Literal::null;
}

/// Why data are divided.
inline constexpr const char* kWhyShare = "each process takes its share of the samples";
/// Divides each array of an expression, also in a list or dictionary of inputs. Throws Refusal.
void share_arrays(KerasWeaving& weaving, const Node* value);
/// Whether TensorFlow draws an expression at random, as far as its names tell.
bool is_drawn(const KerasWeaving& weaving, const Node* expression, int depth = 4);
/// Divides the data `x` that Python makes for a call of fit(); false if they are something else. `has_steps`:
/// whether the call passes steps_per_epoch. Throws Refusal.
bool write_python_data(KerasWeaving& weaving, const Node* call, const Node* x, bool has_steps);
/// Whether a value is an entry of a dictionary that is only passed to these calls, as **.
bool is_option_of(const KerasWeaving& weaving, const Node* value, const std::vector<KerasCall>& calls);
void write_keras_callbacks(KerasWeaving& weaving, const KerasCall& fit);
/// The same for a callback that is passed without a list; false if there is none.
bool write_one_keras_callback(KerasWeaving& weaving, const KerasCall& fit);
void write_keras_tapes(KerasWeaving& weaving);     // GradientTape loops for Horovod
void write_keras_replicas(KerasWeaving& weaving);  // GradientTape loops for tf.distribute
/// tf.distribute: what a loop does with its batch outside the call of its step. Throws Refusal.
void write_shown_batches(KerasWeaving& weaving, const KerasLoop& loop, const Node* step);
void write_keras_outputs(KerasWeaving& weaving);  // files of models and checkpoints
void write_keras_scope(KerasWeaving& weaving);    // tf.distribute: creates variables in the strategy's scope

/// The calls that compute a tape's gradients.
std::vector<const Node*> gradients_of(const KerasWeaving& weaving, const KerasTape& tape);
/// Whether a tape computes the gradients of a model's variables. Gradients with respect to inputs (a penalty,
/// a saliency map) remain each process's own.
bool trains(const KerasWeaving& weaving, const KerasTape& tape);
/// The tapes of training steps: those that train, or, if the script calls fit(), those of the models' own
/// train_step. Throws Refusal if a script trains in both ways.
std::vector<KerasTape> tapes_of_steps(const KerasWeaving& weaving);
/// Whether a call is `optimizer.apply_gradients(…)`.
bool is_apply(const Node* call);
/// The keras.metrics object that a call updates, as in `metric(…)`, `metric.update_state(…)`; null if it
/// updates none.
const Node* fed_metric(const KerasWeaving& weaving, const Node* call);
/// Whether the metric that `made` creates is updated in a training loop.
bool counts_training(const KerasWeaving& weaving, const Node* made);

/// Divides a dataset of training among the processes, and changes the size of its batches. Returns what must
/// follow the expression. Throws Refusal.
[[nodiscard]] std::string share_dataset(KerasWeaving& weaving, const Node* expression);
/// Whether a number is computed from the length of a divided dataset, and is therefore already smaller.
bool counts_shared(const KerasWeaving& weaving, const Node* expression);
/// tf.distribute: makes the call save to `path` on the chief and to a temporary folder on the other workers.
void save_on_chief(KerasWeaving& weaving, const Node* call, const Node* path);
/// Why a learning rate is multiplied.
inline constexpr const char* kWhyRatesGrow = "each step averages over that many times as many samples";
/// Multiplies a learning rate; for a schedule, multiplies its rates and divides its steps. Throws Refusal.
void scale_keras_rate(KerasWeaving& weaving, const Node* rate);

}  // namespace telar::weave
