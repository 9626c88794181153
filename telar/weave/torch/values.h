#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "telar/weave/torch/batch.h"
#include "telar/weave/torch/writer.h"

namespace telar::weave {

/// Whether an expression computes a number from tensors: `loss.item()`, `float(x)`, `x.mean()`.
bool is_number_of_batch(const Names& names, const Node& expression);

/// The texts of what `loss.backward()` is called on in a loop; for `scaler.scale(loss).backward()`, `loss`.
std::vector<std::string_view> losses_of(const Names& names, const TorchLoop& loop);

/// The texts from which the losses, or the learning rate, are computed within a loop.
std::set<std::string_view> sources_of_steps(const Names& names, const TorchLoop& loop);

/// All names or attributes with this text in the function (or module) around a loop, in source order.
std::vector<const Node*> mentions_around(const Names& names, const Node* loop, std::string_view text);

/// Whether the value that `text` has at the end of a loop is read after it, before it is assigned again.
bool is_read_after(const Names& names, const Node* loop, std::string_view text);

/// Whether what a loop computes from its batches differs between the processes and must be joined.
bool sees_share(const TorchWeaving& weaving, const TorchLoop& loop);
/// Lines that join what a loop computed. If the loop sometimes runs over a loader that is not divided, they
/// are put under a condition.
std::vector<std::string> for_shares(TorchWeaving& weaving, const TorchLoop& loop,
                                    std::vector<std::string> lines);

/// Whether two statements run equally often, because the same loop is the nearest around both.
bool same_repetition(const Node* a, const Node* b);

}  // namespace telar::weave
