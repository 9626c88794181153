#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "telar/bench/store_bench.h"
#include "telar/cli/bench.h"
#include "telar/cli/table.h"
#include "telar/io/atomic_file.h"

namespace telar::cli {

namespace {

nlohmann::ordered_json json_of(const StoreBench& figures) {
  nlohmann::ordered_json json = {{"loopback_bytes_per_second", figures.loopback_bytes_per_second},
                                 {"loopback_round_trip_s", figures.loopback_round_trip},
                                 {"copy_bytes_per_second", figures.copy_bytes_per_second},
                                 {"timings", nlohmann::json::array()},
                                 {"memory", nlohmann::json::array()}};
  for (const StoreTiming& timing : figures.timings)
    json["timings"].push_back({{"bytes", timing.bytes},
                               {"over", timing.shared_memory ? "shared memory" : "gRPC"},
                               {"median_s", timing.median},
                               {"min_s", timing.shortest},
                               {"max_s", timing.longest},
                               {"repetitions", timing.repetitions}});
  for (const StoreMemoryFigure& memory : figures.memory)
    json["memory"].push_back({{"saving", memory.saving},
                              {"slots", memory.slots},
                              {"arenas", memory.arenas},
                              {"beside", memory.beside},
                              {"allowed", memory.allowed}});
  return json;
}

int print_figures(const std::string& json) {
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
  constexpr double kMebi = 1 << 20;
  for (const StoreMemoryFigure& memory : figures.memory)
    std::cout << fmt::format(
        "A server of {:.0f} MiB of parameters with {} kinds of optimizer state, to which 4 members push over "
        "gRPC{}, holds {:.0f} MiB beside these {:.0f} MiB; at most {:.0f} are right.\n",
        static_cast<double>(memory.arenas) / static_cast<double>(1 + memory.slots) / kMebi, memory.slots,
        memory.saving ? " while it saves snapshots" : "", memory.beside / kMebi,
        static_cast<double>(memory.arenas) / kMebi, static_cast<double>(memory.allowed) / kMebi);
  if (!json.empty()) write_file(json, json_of(figures).dump(2) + "\n");
  return 0;
}

}  // namespace

void add_bench_ps(CLI::App& bench, Action& action) {
  CLI::App* experiment = bench.add_subcommand(
      "ps", "Push to and pull from a parameter server in another process, over gRPC and shared memory");
  auto json = std::make_shared<std::string>();
  experiment->add_option("--json", *json, "Write the figures to this file");
  experiment->callback([&action, json] { action = [json] { return print_figures(*json); }; });
}

}  // namespace telar::cli
