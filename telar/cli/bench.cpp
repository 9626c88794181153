#include "telar/cli/bench.h"

#include "telar/cli/verbs.h"

namespace telar::cli {

void add_bench(Verb& program) {
  Verb verb = program.subverb("bench", "Measures this machine and compares each figure with its limit");
  verb.require_subverb();
  verb.footer(
      "Examples:\n  telar bench matmul\n  telar bench comm\nRun telar bench EXPERIMENT --help for details of an experiment.");
  add_bench_limits(verb);
  add_bench_matmul(verb);
  add_bench_conv(verb);
  add_bench_train(verb);
  add_bench_comm(verb);
  add_bench_pipeline(verb);
  add_bench_ps(verb);
  add_bench_scaling(verb);
  add_bench_stream(verb);
}

}  // namespace telar::cli
