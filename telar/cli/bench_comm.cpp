#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "telar/bench/comm.h"
#include "telar/bench/workloads.h"
#include "telar/cli/bench.h"
#include "telar/cli/experiment.h"
#include "telar/cli/together.h"

namespace telar::cli {

namespace {

struct CommArguments {
  int64_t megabytes = 64;
  bench::CommOptions options;
  ResultFiles files;
};

int bench_comm(const CommArguments& arguments, Processes* processes) {
  const std::optional<bench::Result> result = bench::measure_communication(arguments.options, processes);
  if (result) publish(*result, arguments.files);
  return 0;
}

int bench_comm(CommArguments arguments) {
  arguments.options.bytes = static_cast<size_t>(arguments.megabytes) << 20;
  const std::unique_ptr<Processes> processes = join_together();
  return run_together(processes.get(), [&] { return bench_comm(arguments, processes.get()); });
}

}  // namespace

void add_bench_comm(Verb& bench) {
  auto arguments = std::make_shared<CommArguments>();
  Verb verb = bench.subverb("comm", "Communication between replicas, and between processes under mpirun");
  verb.option("--mb", arguments->megabytes, "MiB of gradients on each replica (64)").between(1, 4096);
  verb.option("--replicas", arguments->options.replicas, "Replicas of this process, of one thread each (2)");
  verb.option("--seconds", arguments->options.seconds, "Each figure is measured for so long (1)");
  verb.option(
      "--workload", arguments->options.workload,
      fmt::format("Whose training steps are looked at: {}", fmt::join(bench::workload_names(), ", ")));
  verb.flag("!--no-steps", arguments->options.steps, "Sums of gradients alone, no training steps");
  add_result_files(verb, arguments->files);
  verb.footer(
      "Examples:\n"
      "  telar bench comm\n"
      "  mpirun -n 2 telar bench comm --json comm.json\n"
      "The limit of a sum is the bytes that it must read and write over the bandwidth at which the same "
      "threads add rows of\n"
      "their own, with no word to each other; that of a step the time of one thread alone for the same "
      "samples "
      "of each\n"
      "replica. Of a step: what was spent on communication between the operations of the backward pass; "
      "after "
      "it (exposed),\n"
      "by the replica that waits least; and by the others, waiting for that one. telar bench ps does the "
      "same "
      "for parameter servers.");
  verb.action([arguments] { return bench_comm(*arguments); });
}

}  // namespace telar::cli
