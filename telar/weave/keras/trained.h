#pragma once

#include <string>
#include <vector>

#include "telar/weave/keras/writer.h"

namespace telar::weave {

/// What a step trains, as expressions that are visible at its loop.
struct Trained {
  std::vector<std::string> models;     ///< objects with a list `variables`
  std::vector<std::string> variables;  ///< of tf.Variable(…), each by itself
  std::vector<std::string> lists;      ///< lists of such variables
};

/// Whether an expression gives variables to train: those of a model, or of tf.Variable(…).
bool names_variables(const KerasWeaving& weaving, const Node* expression);

/// Adds what the sources of a gradient are. Throws Refusal if it is not visible at the loop.
void add_trained(const KerasWeaving& weaving, const Node* sources, const KerasLoop& loop, Trained& trained);

/// An expression of a step as it is written at the loop. Throws Refusal if it is not visible there.
std::string visible_at(const KerasWeaving& weaving, const Node* expression, const KerasLoop& loop);

/// Whether a call creates what the step of a loop with a tape trains: a variable, or a model, also one that a
/// library makes.
bool makes_trained(const KerasWeaving& weaving, const Node* call);

}  // namespace telar::weave
