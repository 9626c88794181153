#pragma once

#include <string_view>

#include "telar/graph/graph.h"

namespace telar {

/// What operations with random numbers have in common: inputs `sample`, i32 [N, 2], global sample ids (low
/// word, high word), and `random`, i32 [4] (seed low, seed high, epoch, 0), and an attribute "stream".

/// Throws Error (user) unless the inputs have these types, for `samples` samples.
void check_random_inputs(std::string_view op, int64_t samples, const TensorType& sample,
                         const TensorType& random);

/// The stream of the next operation of this kind in the builder's scope: those of one scope are numbered by
/// their order.
int64_t next_stream(const GraphBuilder& builder, const Op& op);

}  // namespace telar
