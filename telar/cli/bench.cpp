#include "telar/cli/bench.h"

namespace telar::cli {

void add_bench(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("bench", "Measures this machine, each figure beside its limit");
  verb->require_subcommand(1);
  verb->footer(
      "Examples:\n  telar bench matmul\n  telar bench comm\ntelar bench EXPERIMENT --help says more about "
      "each.");
  add_bench_limits(*verb, action);
  add_bench_matmul(*verb, action);
  add_bench_conv(*verb, action);
  add_bench_train(*verb, action);
  add_bench_comm(*verb, action);
  add_bench_pipeline(*verb, action);
  add_bench_ps(*verb, action);
  add_bench_scaling(*verb, action);
}

}  // namespace telar::cli
