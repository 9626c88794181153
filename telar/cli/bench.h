#pragma once

#include "telar/cli/command_line.h"

namespace telar::cli {

/// Each function adds an experiment, with its options, help and action, to the verb `bench`.
void add_bench_comm(Verb& bench);
void add_bench_pipeline(Verb& bench);
void add_bench_ps(Verb& bench);
void add_bench_matmul(Verb& bench);
void add_bench_conv(Verb& bench);
void add_bench_train(Verb& bench);
void add_bench_limits(Verb& bench);
void add_bench_scaling(Verb& bench);
void add_bench_stream(Verb& bench);

}  // namespace telar::cli
