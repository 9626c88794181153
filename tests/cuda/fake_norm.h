#pragma once

#include "cuda/fake_graph.h"

/// Batch norms of cuDNN's graphs, computed by the formulas.
namespace telar::test {

bool is_norm(const Described& operation);
/// Forwards: x, mean, inverse, scale, shift, y and, in training, epsilon. Backwards: x, mean, inverse, scale,
/// dy, dx and the gradients of scale and shift.
Operands norm_operands(const Described& operation);
/// Whether it is described as cuDNN's documentation requires: values per channel are f32, [1, C, 1, 1];
/// epsilon is passed by value.
bool is_right_norm(const Described& operation);
void compute_norm(const Described& operation, const Operands& operands);

}  // namespace telar::test
