#pragma once

#include "telar/graph/program.h"

namespace telar {

/// Throws Error (run), naming workers and what is wrong, unless
///
/// - every group, bucket, store and payload that is named exists,
/// - the workers together keep every parameter, each piece by one group of copies and no others, and their
///   graphs are made for the pieces that they keep,
/// - the gradient of what several workers keep is summed over them, once in each step; in a phase in which
///   they train alone, that of no step, but their parameters are averaged,
/// - workers in step exchange metrics after all other sums, and update after that,
/// - all workers have the same phases,
/// - what a pipeline stage reads is delivered by another one, or sent to its process,
/// - the members of each group make the same exchanges in the same order, and no worker waits for ever.
///
/// Of each kind two workers stand for all, so that the time does not depend on the number of workers.
void verify(const Program& program);

}  // namespace telar
