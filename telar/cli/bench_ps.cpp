#include <filesystem>
#include <iostream>
#include <memory>

#include "telar/bench/store_bench.h"
#include "telar/cli/bench.h"
#include "telar/cli/experiment.h"

namespace telar::cli {

namespace {

int run(const ResultFiles& files) {
  std::cerr
      << "measuring exchanges, memory, and Downpour with one and two workers; this takes half a minute …\n";
  publish(
      bench::measure_parameter_servers({.program = std::filesystem::read_symlink("/proc/self/exe").string()}),
      files);
  return 0;
}

}  // namespace

void add_bench_ps(Verb& bench) {
  Verb verb = bench.subverb(
      "ps",
      "A parameter server in another process: push and pull, its memory, and the gain from a second worker");
  auto files = std::make_shared<ResultFiles>();
  add_result_files(verb, *files);
  verb.footer(
      "Push and pull are measured over gRPC and over shared memory on one host; the server adds what is pushed. The limit for\n"
      "gRPC is a plain TCP connection over the loopback, measured in the same run. The limit for shared memory is its bytes\n"
      "divided by the memory bandwidth (telar bench limits).");
  verb.action([files] { return run(*files); });
}

}  // namespace telar::cli
