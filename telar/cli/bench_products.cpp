#include <iostream>
#include <memory>

#include "telar/bench/products.h"
#include "telar/cli/bench.h"
#include "telar/cli/experiment.h"
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
  const StopRequest stop(kExperimentStops);
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

void add_sweep(Verb& verb, const std::shared_ptr<ProductArguments>& arguments) {
  verb.option("--devices", arguments->options.devices,
              "Devices to compare: cpu (all threads), cpu:N (N threads), gpu, cuda:N (GPU N); without it cpu")
      .comma_separated();
  verb.option("--precision", arguments->precisions,
              "f32, bf16, tf32 (only on GPUs), or several, as in f32,bf16 (f32)")
      .comma_separated()
      .one_of({"f32", "tf32", "bf16"});
  verb.option("--reps", arguments->options.repetitions,
              "Minimum number of repetitions; each measurement takes at least a second (10)")
      .between(1, 1'000'000);
  add_result_files(verb, arguments->files);
}

constexpr const char* kAbout =
    "A row's limit is the larger of two times: its operations divided by the rate of the fastest product measured on its\n"
    "device, and its bytes divided by the bandwidth of the device's memory (telar bench limits). Ctrl-C ends the sweep\n"
    "after the current row.";

}  // namespace

void add_bench_matmul(Verb& bench) {
  auto arguments = std::make_shared<ProductArguments>();
  arguments->options.sizes = {50, 100, 500, 1000, 2000, 5000, 7000, 10000};
  arguments->options.devices = {"cpu"};
  Verb verb = bench.subverb("matmul", "Products of square matrices");
  verb.option("--sizes", arguments->options.sizes,
              "Side lengths of the matrices (50,100,500,1000,2000,5000,7000,10000)")
      .comma_separated();
  add_sweep(verb, arguments);
  verb.footer(
      std::string(
          "Examples:\n  telar bench matmul\n  telar bench matmul --sizes 1000,2000 --devices cpu:1,cpu --precision f32,bf16 --json matmul.json\n") +
      kAbout);
  verb.action([arguments] { return run(*arguments, bench::measure_matmul); });
}

void add_bench_conv(Verb& bench) {
  auto arguments = std::make_shared<ProductArguments>();
  arguments->options.sizes = {20, 40, 60, 80, 100, 200};
  arguments->options.devices = {"cpu"};
  Verb verb = bench.subverb("conv", "Convolutions of 128×128×3 images with 32 filters of 8×8, then the sum");
  verb.option("--images", arguments->options.sizes, "Numbers of images (20,40,60,80,100,200)")
      .comma_separated();
  add_sweep(verb, arguments);
  verb.footer(std::string("Example:\n  telar bench conv --images 20,100 --devices cpu:1,cpu\n") + kAbout);
  verb.action([arguments] { return run(*arguments, bench::measure_conv); });
}

}  // namespace telar::cli
