#pragma once

#include "telar/bench/result.h"
#include "telar/train/job.h"

namespace telar::bench {

/// How fast the messages that a job's topic has now become batches, in one thread and without training,
/// beside librdkafka's own batch consume of the same messages, which looks at none, and beside decoding the
/// first of them from memory. All in turn, `rounds` times. Throws Error (user) if the job trains on no
/// stream, or the topic has no messages.
Result measure_stream(Job job, int rounds);

}  // namespace telar::bench
