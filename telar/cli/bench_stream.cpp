#include <memory>

#include "telar/bench/stream.h"
#include "telar/cli/bench.h"
#include "telar/cli/experiment.h"
#include "telar/cli/options.h"
#include "telar/train/job_reader.h"

namespace telar::cli {

namespace {

struct StreamBenchArguments {
  std::string job;
  std::vector<std::string> overrides;
  int rounds = 5;
  ResultFiles files;
};

int run(const StreamBenchArguments& arguments) {
  publish(bench::measure_stream(read_job(arguments.job, arguments.overrides), arguments.rounds),
          arguments.files);
  return 0;
}

}  // namespace

void add_bench_stream(Verb& bench) {
  auto arguments = std::make_shared<StreamBenchArguments>();
  Verb verb =
      bench.subverb("stream", "How fast the messages of a topic become batches, beside librdkafka alone");
  verb.option("JOB", arguments->job, "A job that trains from a topic; its messages of now are read")
      .required();
  add_overrides(verb, arguments->overrides);
  verb.option("--rounds", arguments->rounds, "Measurements of each").between(1, 1000).show_default();
  add_result_files(verb, arguments->files);
  verb.action([arguments] { return run(*arguments); });
}

}  // namespace telar::cli
