// Times an epoch of a job with its input pipeline, and the same epoch with its batches ready in memory.
//
//   bench_epoch examples/fashion_mnist.yaml --set strategy=single --rounds 3
//
// Both run the same steps: the same session, the same batches in the same order, no validation, no
// checkpoints. The first epoch runs in the trainer's own loop. The second is a loop over Session::train
// alone, with batches that a loader made in advance and that were copied one after another.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "telar/bench/timing.h"
#include "telar/core/error.h"
#include "telar/data/dataset_batches.h"
#include "telar/data/loader.h"
#include "telar/train/job_loader.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"
#include "telar/train/pipeline.h"
#include "telar/train/trainer.h"

namespace {

using namespace telar;
using namespace telar::bench;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string job;
  std::vector<std::string> settings;
  int rounds = 3;
};

/// The batches of one epoch, loaded in advance.
class Epoch {
 public:
  Epoch(const Dataset& data, const Assignment& assignment, uint64_t seed, uint32_t epoch) {
    const DatasetBatches source(data, assignment, seed);
    Loader loader(source, {.threads = 0, .prefetch = 0});
    loader.start(source.begin(epoch));
    while (const Batch* batch = loader.next()) {
      const auto size = static_cast<size_t>(batch->size());
      Kept& kept = batches_.emplace_back();
      kept.size = batch->size();
      kept.features = copy(batch->find("x"), size * data.spec().feature_bytes());
      kept.labels = copy(batch->find("label"), size * data.spec().label_bytes());
      kept.samples = copy(reinterpret_cast<const std::byte*>(batch->ids().data()), size * sizeof(int64_t));
    }
  }

  void train(Session& session, float learning_rate, uint32_t epoch) const {
    int64_t step = 0;
    for (const Kept& kept : batches_) {
      session.train({kept.size,
                     {{"x", kept.features.data()}, {"label", kept.labels.data()}},
                     kept.samples.as<int64_t>().data()},
                    {.learning_rate = learning_rate, .step = ++step, .epoch = epoch});
    }
  }

 private:
  struct Kept {
    int64_t size = 0;
    Buffer features;
    Buffer labels;
    Buffer samples;
  };
  static Buffer copy(const std::byte* from, size_t bytes) {
    Buffer buffer(bytes);
    std::copy_n(from, bytes, buffer.data());
    return buffer;
  }
  std::vector<Kept> batches_;
};

void print(const char* kind, const char* setting, const Times& times) {
  const nlohmann::ordered_json record{{"kind", kind},
                                      {"framework", "telar"},
                                      {"workload", "epoch"},
                                      {"setting", setting},
                                      {"reps", times.milliseconds.size()},
                                      {"median_ms", times.median()},
                                      {"min_ms", times.min()},
                                      {"max_ms", times.max()}};
  fmt::print("{}\n", record.dump());
}

void run(const Options& options) {
  Job job = read_job(options.job, options.settings);
  const auto seed = static_cast<uint64_t>(job.training.seed);
  const Datasets data = open_datasets(job.data, seed);
  const auto session = job_session(job, data.train->spec());
  const FixedSlice assignment(data.train->size(), job.training.batch, seed, job.data.shuffle);
  const int64_t steps = assignment.steps(0);
  const auto rate = static_cast<float>(job.optimizer.learning_rate);

  TrainerOptions trained;
  trained.batch = job.training.batch;
  trained.schedule.base = job.optimizer.learning_rate;
  trained.seed = seed;
  trained.shuffle = job.data.shuffle;
  trained.loader_threads = loader_threads(job, nullptr);
  trained.prefetch = static_cast<int>(job.data.prefetch);
  const auto fit = [&](int64_t epoch) {
    trained.epochs = epoch + 1;
    Trainer trainer(*session, trained);
    TrainingState state;
    state.epoch = epoch;
    trainer.restore(state);
    trainer.fit(*data.train, nullptr);
  };

  Times piped;
  Times ready;
  Times loaded;
  for (int round = 0; round <= options.rounds; ++round) {
    const auto epoch = static_cast<uint32_t>(round);
    const Epoch batches(*data.train, assignment, seed, epoch);
    const auto of_batch = [&](Times& times, const auto& body) {
      const double all = time_calls(
                             1, [] {}, body)
                             .milliseconds.front();
      if (round > 0)
        times.milliseconds.push_back(all / static_cast<double>(steps));  // the first round compiles
    };
    of_batch(piped, [&] { fit(epoch); });
    of_batch(ready, [&] { batches.train(*session, rate, epoch); });
    of_batch(loaded, [&] {
      const DatasetBatches source(*data.train, assignment, seed);
      Loader loader(source, {.threads = 0, .prefetch = 0});
      loader.start(source.begin(epoch));
      while (loader.next() != nullptr) {
      }
    });
  }
  print("step", "input pipeline included", piped);
  print("step", "batches in memory", ready);
  print("load", "the input pipeline alone", loaded);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Times an epoch with its input pipeline, and the same epoch with its batches in memory");
  app.add_option("job", options.job)->required();
  app.add_option("--set", options.settings, "KEY=VALUE of the job");
  app.add_option("--rounds", options.rounds, "number of timed epochs of each kind; the kinds alternate");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return error.kind() == Error::Kind::user ? 2 : 1;
  }
  return 0;
}
