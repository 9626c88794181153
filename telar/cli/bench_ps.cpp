#include <filesystem>
#include <iostream>
#include <memory>

#include "telar/bench/store_bench.h"
#include "telar/cli/bench.h"
#include "telar/cli/experiment.h"

namespace telar::cli {

namespace {

int run(const ResultFiles& files) {
  std::cerr << "measuring exchanges, memory, and Downpour with one and two workers; half a minute …\n";
  publish(
      bench::measure_parameter_servers({.program = std::filesystem::read_symlink("/proc/self/exe").string()}),
      files);
  return 0;
}

}  // namespace

void add_bench_ps(Verb& bench) {
  Verb verb = bench.subverb(
      "ps",
      "A parameter server in another process: push and pull, its memory, and what a second worker brings");
  auto files = std::make_shared<ResultFiles>();
  add_result_files(verb, *files);
  verb.footer(
      "Push and pull go over gRPC and over the memory that processes of one host share; a sum is made on the "
      "server. The limit\n"
      "of gRPC is one plain TCP connection over the loopback, measured in the same run; that of shared "
      "memory "
      "its bytes over\n"
      "the pace of memory (telar bench limits).");
  verb.action([files] { return run(*files); });
}

}  // namespace telar::cli
