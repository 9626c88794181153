// Times matrix products and convolutions: in Telar, and alone through oneDNN.
//
//   bench_products --workload matmul --sizes 2000,10000
//   bench_products --workload conv --sizes 20,200

#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "limit.h"
#include "telar/bench/graph_run.h"
#include "telar/bench/products.h"
#include "telar/core/error.h"

namespace {

using namespace telar;
using namespace telar::bench;

void print(const char* framework, const std::string& workload, int64_t size, const Times& times) {
  const nlohmann::ordered_json record{{"kind", "step"},
                                      {"framework", framework},
                                      {"workload", fmt::format("{} {}", workload, size)},
                                      {"setting", "as it comes"},
                                      {"reps", times.milliseconds.size()},
                                      {"median_ms", times.median()},
                                      {"min_ms", times.min()},
                                      {"max_ms", times.max()}};
  std::cout << record.dump() << std::endl;
}

/// A product of 10,000² takes ten seconds on two cores.
constexpr int64_t kLarge = 5000;

}  // namespace

int main(int argc, char** argv) {
  std::string workload = "matmul";
  std::vector<int64_t> sizes{2000};
  int threads = 2;
  double seconds = 1;
  CLI::App app(
      "Times matrix products and convolutions, in Telar and alone through oneDNN; prints one JSON object per line");
  app.add_option("--workload", workload)->check(CLI::IsMember({"matmul", "conv"}));
  app.add_option("--sizes", sizes, "sides of the matrices, or numbers of images")->delimiter(',');
  app.add_option("--threads", threads);
  app.add_option(
      "--seconds", seconds,
      fmt::format("minimum time to repeat each, at least 10 times; sizes from {} on run 3 times", kLarge));
  CLI11_PARSE(app, argc, argv);
  try {
    for (const int64_t size : sizes) {
      const Graph graph =
          workload == "matmul" ? matmul_graph(size, DType::f32) : conv_graph(size, DType::f32);
      {
        GraphRun run(graph, threads);
        const auto once = [&] { run.run(); };
        once();
        print("telar", workload, size,
              size < kLarge ? time_calls(seconds, once)
                            : time_calls(
                                  3, [] {}, once));
      }
      omp_set_num_threads(threads);
      const double alone = size < kLarge ? seconds : 0;
      if (workload == "conv") {
        print("onednn", workload, size, time_summed(graph, alone));
        print("onednn without the sum", workload, size, time_alone(graph, alone));
      } else {
        print("onednn", workload, size, time_alone(graph, alone));
      }
    }
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return error.kind() == Error::Kind::user ? 2 : 1;
  }
  return 0;
}
