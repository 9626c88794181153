#pragma once

#include <driver_types.h>

#include <cstdint>

// GPU loops (see launch.h). Each function enqueues its work on a stream.
namespace telar::cuda {

/// y: `samples` × `per_sample` standard normal numbers, f32, by the rule of
/// telar/graph/ops/random_normal_rule.h. sample: i32, two words for each sample; random: i32 [4].
cudaError_t draw_normal(uint64_t rule_stream, const int32_t* sample, const int32_t* random, float* y,
                        int64_t samples, int64_t per_sample, cudaStream_t stream);

}  // namespace telar::cuda
