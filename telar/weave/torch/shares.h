#pragma once

#include <optional>
#include <string>
#include <vector>

#include "telar/weave/python/names.h"

namespace telar::weave {

struct TorchProgram;

/// A tensor that a training step uses as a whole, or of which it takes rows, and whose samples the processes
/// can divide.
struct SharedTensor {
  std::string text;                   ///< the variable, or the call that makes a tensor of one
  std::string name;                   ///< of the variable
  int dimension = 0;                  ///< of the samples
  std::vector<const Node*> mentions;  ///< in the step, which take the share in its place
};

/// A training step without a DataLoader whose samples the processes can divide: over all samples at once
/// (full batch), or over the next rows of text in columns (bptt).
struct TorchShare {
  const Node* backward = nullptr;
  const Node* loop = nullptr;    ///< around the steps
  const Node* before = nullptr;  ///< the statement before which the shares are taken
  std::vector<SharedTensor> tensors;
  const Node* loss = nullptr;  ///< the statement that assigns it
  std::string loss_name;
  bool is_loss_read = false;       ///< after the backward pass
  std::vector<const Node*> sizes;  ///< numbers of columns for which hidden states are made
};

/// The share of the step with this backward pass; nothing if weave cannot prove that its samples can be
/// divided. `why` then says what prevents it, if the step would otherwise be one.
std::optional<TorchShare> read_share(const Names& names, const TorchProgram& program, const Node* backward,
                                     std::string& why);

}  // namespace telar::weave
