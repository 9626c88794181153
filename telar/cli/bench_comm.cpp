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
  verb.option("--mb", arguments->megabytes, "MiB of gradients per replica (64)").between(1, 4096);
  verb.option("--replicas", arguments->options.replicas,
              "Replicas in this process, with one thread each (2)");
  verb.option("--seconds", arguments->options.seconds, "Seconds per measured figure (1)");
  verb.option("--workload", arguments->options.workload,
              fmt::format("Workload whose training steps are measured: {}",
                          fmt::join(bench::workload_names(), ", ")));
  verb.flag("!--no-steps", arguments->options.steps, "Measure only sums of gradients, no training steps");
  add_result_files(verb, arguments->files);
  verb.footer(
      "Examples:\n"
      "  telar bench comm\n"
      "  mpirun -n 2 telar bench comm --json comm.json\n"
      "The limit of a sum is the number of bytes that it must read and write, divided by the bandwidth at which the same\n"
      "threads add rows of their own without communication. The limit of a step is the time that one thread alone takes for\n"
      "the samples of one replica. Three communication times of a step are reported: within the backward pass, between its\n"
      "operations; after it (exposed), for the replica that waits least; and the time that the others wait for that replica.\n"
      "For parameter servers, see telar bench ps.");
  verb.action_of_each_process([arguments] { return bench_comm(*arguments); });
}

}  // namespace telar::cli
