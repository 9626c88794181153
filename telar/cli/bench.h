#pragma once

#include "telar/cli/verbs.h"

namespace telar::cli {

/// Each adds an experiment to the verb `bench`.
void add_bench_comm(CLI::App& bench, Action& action);
void add_bench_pipeline(CLI::App& bench, Action& action);
void add_bench_ps(CLI::App& bench, Action& action);
void add_bench_matmul(CLI::App& bench, Action& action);
void add_bench_conv(CLI::App& bench, Action& action);
void add_bench_train(CLI::App& bench, Action& action);
void add_bench_limits(CLI::App& bench, Action& action);
void add_bench_scaling(CLI::App& bench, Action& action);

}  // namespace telar::cli
