#pragma once

#include <string>
#include <vector>

#include "telar/weave/python/names.h"

namespace telar::weave {

struct TorchProgram;

/// A tensor of which a training step takes a part, so that the processes can divide its samples.
struct SharedTensor {
  std::string text;                   ///< the variable, or the call that makes a tensor of one
  std::string name;                   ///< of the variable
  int dimension = 0;                  ///< of the samples
  std::vector<const Node*> mentions;  ///< in the step, which take the share in its place
  /// Of a batch: the statement of the step that assigns it, or the loop whose variable it is. Null: the
  /// steps do not change it.
  const Node* assigned = nullptr;
  const Node* used = nullptr;    ///< of rows that the step takes where it uses them: that statement
  bool are_random_rows = false;  ///< drawn at random, so each row is a sample

  /// The statement at which the part is taken; null: before the loop.
  const Node* place() const { return assigned != nullptr ? assigned : used; }
};

/// A value of a step that the script reads for more than its loss. It then needs that of all samples.
struct ReadValue {
  std::string name;
  const Node* assigned = nullptr;  ///< the statement that assigns it
  int dimension = -1;              ///< of the samples; -1: it is a mean over them
  bool is_renamed =
      true;  ///< the mentions read another variable; otherwise it changes after the backward pass
  std::vector<const Node*> mentions;
};

/// A training step without a DataLoader whose samples the processes can divide: over all samples at once
/// (full batch), over batches that the script takes itself, or over the next rows of text in columns (bptt).
struct TorchShare {
  const Node* backward = nullptr;
  const Node* loop = nullptr;    ///< around the steps
  const Node* before = nullptr;  ///< the statement before which shares are taken that do not change
  std::vector<SharedTensor>
      tensors;  ///< those that do not change first; then in the order of their assignments
  std::vector<ReadValue> read;
  const Node* loss = nullptr;      ///< the statement that assigns it, or that of the backward pass
  std::string loss_name;           ///< empty if the backward pass computes it
  bool is_loss_read = false;       ///< after the backward pass
  std::vector<const Node*> sizes;  ///< numbers of columns for which hidden states are made
  std::vector<const Node*> draws;  ///< random numbers about which the processes must agree

  bool has_batches() const { return tensors.front().place() != nullptr; }
};

/// The shares of the steps with these backward passes. Nothing if weave cannot prove that the samples of
/// one can be divided: `refused` is then its backward pass, and `why` says what prevents it, if the step
/// would otherwise be one.
std::vector<TorchShare> read_shares(const Names& names, const TorchProgram& program,
                                    const std::vector<const Node*>& backwards, const Node*& refused,
                                    std::string& why);

}  // namespace telar::weave
