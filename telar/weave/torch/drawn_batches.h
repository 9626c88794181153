#pragma once

#include <set>

#include "telar/weave/torch/program.h"

namespace telar::weave {

/// Batches that a script takes itself: slices of tensors, rows that it draws at random. All processes must
/// take the same ones, so that each can compute with its part of them.
class DrawnBatches {
 public:
  /// `root`: the outermost loop around the training, in which each process has its own random numbers.
  DrawnBatches(const Names& names, const TorchProgram& program, const Node* root);

  /// Whether all processes have the same value of an expression, once they agree about what it draws at
  /// random.
  bool agree(const Node* expression);
  /// A variable that is known to have the same value in all processes: the loss.
  void know(int place) { known_.insert(place); }
  /// Whether the rows of a tensor are drawn or shuffled at random, which shows that they are samples.
  /// `part`: the index in a tuple.
  bool are_random_rows(const Node* expression, int part = -1);
  /// The calls that draw at random, about whose results the processes must agree; of one that shuffles in
  /// place, the call too.
  const std::set<const Node*>& draws() const { return draws_; }
  /// Whether a call shuffles its argument in place.
  static bool shuffles(const Names& names, const Node* call);

 private:
  bool in_training(const Node* node) const;
  bool reach(const Node* expression);
  bool reach_name(const Node* name);
  bool reach_call(const Node* call);
  bool reach_within(const Node* node);
  bool applies_layers(const Node* call) const;
  bool is_random_vector(const Node* expression, int depth);
  bool is_random(const Node* expression, int part, int depth);
  bool is_random_call(const Node* call, int part, int depth);
  bool is_list_of_random(const Node* expression, int depth);
  bool is_shuffled(const Node* name) const;

  const Names& names_;
  const TorchProgram& program_;
  const Node* root_;
  std::set<const Node*> functions_;  // that the training calls
  std::set<int> known_;
  std::set<const Node*> draws_;
  // Of the current question: what has been looked at, and the draws that were found.
  std::set<const Node*> seen_;
  std::set<int> places_;
  std::set<const Node*> found_;
};

}  // namespace telar::weave
