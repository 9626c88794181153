#include <fmt/format.h>

#include <iostream>

#include "telar/bench/store_bench.h"
#include "telar/cli/bench.h"
#include "telar/cli/table.h"

namespace telar::cli {

namespace {

int print_figures() {
  const StoreBench figures = bench_store({size_t{40} << 20, 4096});
  std::vector<std::vector<std::string>> rows{
      {"push and pull of", "over", "µs", "min", "max", "GB/s both ways", "repetitions"}};
  for (const StoreTiming& timing : figures.timings)
    rows.push_back(
        {timing.bytes >= (size_t{1} << 20) ? fmt::format("{} MiB", timing.bytes >> 20)
                                           : fmt::format("{} KiB", timing.bytes >> 10),
         timing.shared_memory ? "shared memory" : "gRPC", fmt::format("{:.1f}", timing.median * 1e6),
         fmt::format("{:.1f}", timing.shortest * 1e6), fmt::format("{:.1f}", timing.longest * 1e6),
         fmt::format("{:.2f}", timing.bytes_per_second() * 1e-9), std::to_string(timing.repetitions)});
  std::cout << table_text(rows, 2)
            << fmt::format(
                   "\nLimits, in the same run: one TCP connection over the loopback carries {:.2f} GB/s both "
                   "ways, and "
                   "4 KiB there and back in {:.1f} µs; memcpy by one thread reads and writes {:.1f} GB/s.\n",
                   figures.loopback_bytes_per_second * 1e-9, figures.loopback_round_trip * 1e6,
                   figures.copy_bytes_per_second * 1e-9);
  return 0;
}

}  // namespace

void add_bench_ps(CLI::App& bench, Action& action) {
  CLI::App* experiment = bench.add_subcommand(
      "ps", "Push to and pull from a parameter server in another process, over gRPC and shared memory");
  experiment->callback([&action] { action = print_figures; });
}

}  // namespace telar::cli
