#include "telar/bench/comm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "telar/bench/crew.h"
#include "telar/bench/workloads.h"
#include "telar/core/error.h"

namespace telar::bench {

namespace {

constexpr size_t kBucketFloats = (size_t{4} << 20) / sizeof(float);  // the default of strategy.bucket_mb

/// One replica's gradients, filled anew before each time: sums in place would grow without end.
class Gradients {
 public:
  Gradients(Group& group, size_t bytes) : memory_(group.allocate(bytes)) {}
  std::span<float> all() const {
    return {reinterpret_cast<float*>(memory_.data()), memory_.size() / sizeof(float)};
  }
  void fill(int rank) const { std::ranges::fill(all(), static_cast<float>(rank + 1)); }
  template <typename Body>
  void for_each_bucket(const Body& body) const {
    for (size_t at = 0; at < all().size(); at += kBucketFloats) {
      body(all().subspan(at, std::min(kBucketFloats, all().size() - at)));
    }
  }

 private:
  std::span<std::byte> memory_;
};

void require_sum(std::span<const float> values, int replicas) {
  float sum = 0;
  for (int rank = 0; rank < replicas; ++rank) sum += static_cast<float>(rank + 1);
  if (!std::ranges::all_of(values, [sum](float value) { return value == sum; })) {
    throw run_error("an all-reduce of {} floats gave a wrong sum", values.size());
  }
}

void exchange(Group& group, const Gradients& mine) {
  mine.for_each_bucket([&](std::span<float> bucket) { group.start_reduce_scatter(bucket); });
  group.finish();
}

void check(const CommOptions& options) {
  if (options.replicas < 2 || options.replicas > 1024) {
    throw user_error("{} replicas cannot be measured; give 2 to 1024", options.replicas);
  }
  if (options.bytes < (1 << 20) || options.bytes > (size_t{4} << 30)) {
    throw user_error("{} bytes of gradients cannot be measured; give 1 MiB to 4 GiB", options.bytes);
  }
}

/// The figure's bytes at the pace of `memory`, with the same number of threads.
void set_limit(CommFigure& figure, const CommFigure& memory) {
  figure.limit_ms = memory.times.median() * figure.moved_bytes / memory.moved_bytes;
}

/// What the replicas of one process do.
class InProcess {
 public:
  explicit InProcess(const CommOptions& options) : options_(options), crew_(options.replicas) {
    for (int r = 0; r < options.replicas; ++r) gradients_.emplace_back(crew_.member(r), options.bytes);
  }

  /// The figures of `figures` that one process alone has. In rounds: the pace of a machine may change, and is to change for all.
  void measure(CommFigures& figures) {
    check_sums();
    figures.memory = {{"memory: a += b", {}, 1.5 * all_bytes()},
                      {"memory: a = b = a + b", {}, 2 * all_bytes()}};
    figures.reduce_scatter = {"reduce-scatter", {}, all_bytes() + static_cast<double>(options_.bytes)};
    figures.all_reduce = {"all-reduce", {}, 2 * all_bytes()};
    for (int round = 0; round < kRounds; ++round) {
      time(figures.memory[0], [this](const Group& group) { add(group); });
      time(figures.reduce_scatter, [this](Group& group) { exchange(group, of(group)); });
      time(figures.memory[1], [this](const Group& group) { add_for_both(group); });
      time(figures.all_reduce, [this](Group& group) { group.all_reduce(of(group).all()); });
    }
    set_limit(figures.reduce_scatter, figures.memory[0]);
    set_limit(figures.all_reduce, figures.memory[1]);
  }

 private:
  static constexpr int kRounds = 3;

  // Rows of the same size and in the same hands as the gradients; each thread looks at its own alone.

  void add(const Group& group) const {
    const auto both = halves(group);  // clang takes no structured bindings into a simd region
    const std::span<float> a = both.first;
    const std::span<float> b = both.second;
#pragma omp simd
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  }

  void add_for_both(const Group& group) const {
    const auto both = halves(group);  // clang takes no structured bindings into a simd region
    const std::span<float> a = both.first;
    const std::span<float> b = both.second;
#pragma omp simd
    for (size_t i = 0; i < a.size(); ++i) a[i] = b[i] = a[i] + b[i];
  }

  void check_sums() {
    crew_.run([this](Group& group) {
      of(group).fill(group.rank());
      exchange(group, of(group));
      of(group).for_each_bucket([&](std::span<float> bucket) {
        const auto [begin, end] = group.shard(bucket.size());
        require_sum(bucket.subspan(begin, end - begin), group.size());
      });
      group.barrier();
      of(group).fill(group.rank());
      group.all_reduce(of(group).all());
      require_sum(of(group).all(), group.size());
    });
  }

  double all_bytes() const { return static_cast<double>(options_.bytes) * options_.replicas; }

  const Gradients& of(const Group& group) const { return gradients_[static_cast<size_t>(group.rank())]; }
  std::pair<std::span<float>, std::span<float>> halves(const Group& group) const {
    const std::span<float> row = of(group).all();
    return {row.first(row.size() / 2), row.subspan(row.size() / 2, row.size() / 2)};
  }

  void time(CommFigure& figure, const Crew::Work& work) {
    const Times times = crew_.time(
        options_.seconds / kRounds, [this](const Group& group) { of(group).fill(group.rank()); }, work);
    figure.times.milliseconds.insert(figure.times.milliseconds.end(), times.milliseconds.begin(),
                                     times.milliseconds.end());
  }

  const CommOptions& options_;
  Crew crew_;
  std::vector<Gradients> gradients_;
};

/// Each time is that of the process that was slowest in it.
Times slowest(Processes& processes, const Times& mine) {
  std::vector<float> negated;
  for (const double time : mine.milliseconds) negated.push_back(-static_cast<float>(time));
  processes.lowest(negated);
  Times times;
  for (const float time : negated) times.milliseconds.push_back(-static_cast<double>(time));
  return times;
}

/// What one replica in each process does: all call everything.
class BetweenProcesses {
 public:
  BetweenProcesses(const CommOptions& options, Processes& processes)
      : options_(options),
        processes_(processes),
        member_(processes.join(team_.member(0))),
        gradients_(*member_, options.bytes) {}

  CommFigure library() {
    return measure("MPI_Allreduce", [this] { processes_.library_all_reduce(gradients_.all()); });
  }
  CommFigure ours() {
    return measure("all-reduce", [this] { exchange(*member_, gradients_); });
  }

 private:
  template <typename Work>
  CommFigure measure(const std::string& name, const Work& work) {
    const auto begin = [this] {
      gradients_.fill(processes_.rank());
      processes_.lowest(0);
    };
    begin();
    work();
    require_sum(gradients_.all(), processes_.size());
    // Rank 0 says how often, so that all do the same.
    int calls = std::max(10, static_cast<int>(1e3 * options_.seconds / time_calls(4, begin, work).median()));
    processes_.broadcast(std::as_writable_bytes(std::span(&calls, 1)));
    return {name, slowest(processes_, time_calls(calls, begin, work)), 0, 0};
  }

  const CommOptions& options_;
  Processes& processes_;
  ThreadTeam team_{1};
  std::unique_ptr<Group> member_;
  Gradients gradients_;
};

/// Training steps of the workload: `replicas` of one thread in each process, with the workload's batch for each.
StepFigure train_steps(const CommOptions& options, const std::string& name, int replicas,
                       Processes* processes) {
  Workload workload = make_workload(options.workload);
  const int64_t batch = workload.options.batch * replicas;
  workload.options.batch = batch * (processes == nullptr ? 1 : processes->size());
  const auto session = make_session(workload, replicas, 1, processes);
  const Samples samples(workload, batch);
  StepFigure figure{name, {}, {}};
  std::vector<CommunicationTime> steps;
  const auto step = [&] {
    const StepInputs inputs{.learning_rate = 1e-4F,
                            .step = static_cast<int64_t>(steps.size()) + 1,
                            .samples = workload.options.batch};
    steps.push_back(session->train(samples.view(), inputs).communication);
  };
  int calls = std::max(10, static_cast<int>(1e3 * options.seconds /
                                            time_calls(
                                                4, [] {}, step)
                                                .median()));
  if (processes != nullptr) processes->broadcast(std::as_writable_bytes(std::span(&calls, 1)));
  steps.clear();
  figure.times = time_calls(
      calls, [] {}, step);
  if (processes != nullptr) {
    figure.times = slowest(*processes, figure.times);
    compare_over(*processes, steps);
  }
  double total = 0;
  for (const double time : figure.times.milliseconds) total += time / 1e3;
  figure.parts = parts_of(steps, total);
  return figure;
}

}  // namespace

CommFigures measure_communication(const CommOptions& options, Processes* processes) {
  check(options);
  CommFigures figures;
  const std::string one = fmt::format("{} replicas × 1 thread, 1 process", options.replicas);
  if (processes == nullptr || processes->rank() == 0) {
    InProcess threads(options);
    threads.measure(figures);
    figures.steps.push_back(train_steps(options, one, options.replicas, nullptr));
  }
  if (processes == nullptr) return figures;
  processes->sleep_until_all_come();
  {
    BetweenProcesses between(options, *processes);
    figures.processes = {between.library(), between.ours()};
    if (processes->rank() == 0 && processes->size() == options.replicas) {
      figures.processes[1].moved_bytes = figures.all_reduce.moved_bytes;
      set_limit(figures.processes[1], figures.memory[1]);
    }
  }
  const std::string many = fmt::format("1 replica × 1 thread, {} processes", processes->size());
  figures.steps.push_back(train_steps(options, many, 1, processes));
  return figures;
}

}  // namespace telar::bench
