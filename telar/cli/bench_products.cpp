#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "telar/bench/environments.h"
#include "telar/bench/limits.h"
#include "telar/bench/machine_watch.h"
#include "telar/bench/products.h"
#include "telar/cli/bench.h"
#include "telar/cli/experiment.h"
#include "telar/core/error.h"
#include "telar/observe/process.h"
#include "telar/observe/stop_request.h"

namespace telar::cli {

namespace {

struct ProductArguments {
  bench::SweepOptions options;
  std::vector<std::string> precisions{"f32"};
  ResultFiles files;
};

using Measure = bench::Result (*)(const bench::SweepOptions&);

int run(ProductArguments arguments, Measure measure) {
  const StopRequest stop;
  bench::SweepOptions& options = arguments.options;
  options.precisions.clear();
  for (const std::string& name : arguments.precisions)
    options.precisions.push_back({name == "bf16" ? DType::bf16 : DType::f32, name == "tf32"});
  options.stop_requested = [&stop] { return stop.requested(); };
  options.say = [](const std::string& text) { std::cerr << "measuring " << text << " …\n"; };
  const bench::Result result = measure(options);
  publish(result, arguments.files);
  return stop.requested() ? 128 + stop.signal_number() : 0;
}

void add_sweep(CLI::App& verb, const std::shared_ptr<ProductArguments>& arguments) {
  verb.add_option("--devices", arguments->options.devices,
                  "Side by side: cpu (all threads), cpu:N (N threads), gpu, cuda:N (that GPU) (cpu)")
      ->delimiter(',');
  verb.add_option("--precision", arguments->precisions,
                  "f32, bf16, tf32 (GPUs alone), or several: f32,bf16 (f32)")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "tf32", "bf16"}));
  verb.add_option("--reps", arguments->options.repetitions,
                  "At least so many repetitions of each, and more until a second is over (10)")
      ->check(CLI::Range(1, 1'000'000));
  add_result_files(verb, arguments->files);
}

constexpr const char* kAbout =
    "A row's limit is the larger of its operations over the fastest product that this machine was seen to "
    "make, and its\n"
    "bytes over its memory's bandwidth (telar bench limits). Ctrl-C ends the sweep after the row that is "
    "measured now.";

bench::ResultRow row_of(const bench::Limits& limits) {
  constexpr double kGiga = 1e-9;
  bench::ResultRow row{{std::to_string(limits.threads)},
                       std::nullopt,
                       "",
                       {{"product f32", "GFLOP/s", kGiga * limits.f32_operations},
                        {"product bf16", "GFLOP/s", kGiga * limits.bf16_operations},
                        {"memory, read and written", "GB/s", kGiga * limits.memory_bytes},
                        {"last-level caches", "MB", 1e-6 * limits.cache_bytes}}};
  if (limits.threads == 1) return row;
  row.figures.push_back({"gradients, between threads", "GB/s", kGiga * limits.all_reduce_bytes});
  std::optional<double> between;
  if (limits.process_all_reduce_bytes > 0) between = kGiga * limits.process_all_reduce_bytes;
  row.figures.push_back({"gradients, between processes", "GB/s", between});
  return row;
}

/// Adds what there is between as many processes; says why when there is nothing.
void add_processes(bench::Limits& limits, bench::Result& result, const std::function<bool()>& stop) {
  std::string impossible = bench::without_mpi();
  if (impossible.empty()) {
    std::cerr << "measuring between " << limits.threads << " processes …\n";
    try {
      limits.process_all_reduce_bytes = bench::measure_all_reduce_between(
          limits.threads, std::filesystem::read_symlink("/proc/self/exe").string(), stop);
    } catch (const Error& error) {
      impossible = error.what();
    }
  }
  if (!impossible.empty())
    result.remarks.push_back(fmt::format("Between processes nothing was measured: {}.", impossible));
}

int limits_of_machine(const ResultFiles& files) {
  const StopRequest stop;
  const auto stopped = [&stop] { return stop.requested(); };
  const bench::MachineWatch watch;
  bench::Result result{
      "limits", "What this machine can do, the best of several runs", {"threads"}, {}, "", 0, {}, {}};
  const int all = available_threads();
  for (const int threads : all > 1 ? std::vector<int>{1, all} : std::vector<int>{1}) {
    if (stopped()) break;
    std::cerr << "measuring with " << threads << (threads == 1 ? " thread …\n" : " threads …\n");
    bench::Limits limits = bench::measure_limits(threads);
    if (threads > 1 && !stopped()) add_processes(limits, result, stopped);
    if (!stopped()) bench::keep_limits(limits);  // what was kept before has all its figures
    result.rows.push_back(row_of(limits));
    if (const std::string text = bench::busy_text(limits); !text.empty()) result.remarks.push_back(text);
  }
  result.drawn = "product f32";
  result.remarks.push_back(fmt::format("Kept in {}.", bench::limits_file().string()));
  watch.finish(result);
  publish(result, files);
  return stop.requested() ? 128 + stop.signal_number() : 0;
}

}  // namespace

void add_bench_matmul(CLI::App& bench, Action& action) {
  auto arguments = std::make_shared<ProductArguments>();
  arguments->options.sizes = {50, 100, 500, 1000, 2000, 5000, 7000, 10000};
  arguments->options.devices = {"cpu"};
  CLI::App* verb = bench.add_subcommand("matmul", "Products of square matrices");
  verb->add_option("--sizes", arguments->options.sizes,
                   "Sides of the matrices (50,100,500,1000,2000,5000,7000,10000)")
      ->delimiter(',');
  add_sweep(*verb, arguments);
  verb->footer(
      std::string(
          "Examples:\n  telar bench matmul\n  telar bench matmul --sizes 1000,2000 --devices cpu:1,cpu "
          "--precision f32,bf16 --json matmul.json\n") +
      kAbout);
  verb->callback(
      [arguments, &action] { action = [arguments] { return run(*arguments, bench::measure_matmul); }; });
}

void add_bench_conv(CLI::App& bench, Action& action) {
  auto arguments = std::make_shared<ProductArguments>();
  arguments->options.sizes = {20, 40, 60, 80, 100, 200};
  arguments->options.devices = {"cpu"};
  CLI::App* verb =
      bench.add_subcommand("conv", "Convolutions of 128×128×3 images with 32 filters of 8×8, then the sum");
  verb->add_option("--images", arguments->options.sizes, "Numbers of images (20,40,60,80,100,200)")
      ->delimiter(',');
  add_sweep(*verb, arguments);
  verb->footer(std::string("Example:\n  telar bench conv --images 20,100 --devices cpu:1,cpu\n") + kAbout);
  verb->callback(
      [arguments, &action] { action = [arguments] { return run(*arguments, bench::measure_conv); }; });
}

void add_bench_limits(CLI::App& bench, Action& action) {
  auto files = std::make_shared<ResultFiles>();
  CLI::App* verb = bench.add_subcommand("limits", "What this machine can do: products, memory, all-reduce");
  add_result_files(*verb, *files);
  verb->footer(
      "The figures are kept, and the other experiments show theirs beside them. They are the best of several "
      "runs; let nothing\n"
      "else run meanwhile. The all-reduce is between threads; mpirun -n 2 telar bench comm measures it "
      "between "
      "processes, too.");
  verb->callback([files, &action] { action = [files] { return limits_of_machine(*files); }; });
}

}  // namespace telar::cli
