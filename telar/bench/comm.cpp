#include "telar/bench/comm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "telar/bench/crew.h"
#include "telar/bench/machine_watch.h"
#include "telar/bench/pipeline.h"
#include "telar/bench/workloads.h"
#include "telar/core/error.h"
#include "telar/runtime/communication_time.h"

namespace telar::bench {

namespace {

constexpr size_t kBucketFloats = (size_t{4} << 20) / sizeof(float);  // the default of strategy.bucket_mb

/// The gradients of one replica. They are filled again before each repetition, because in-place sums would
/// grow without limit.
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

/// A timed sum of gradients.
struct Sum {
  std::string what;
  std::string by;
  double moved_bytes = 0;  ///< the minimum to read and write, over all threads; 0: unknown
  Times times = {};
  double limit_ms = 0;  ///< 0: the sum itself measures a limit, or none is known

  ResultRow row() const {
    return {{what, by}, Measured{times, 0, moved_bytes, limit_ms, false, std::nullopt}, "", {}};
  }
};

/// The results for the replicas of one process.
struct InProcessSums {
  Sum add;           ///< each thread adds one of its rows to another one, without synchronisation
  Sum add_for_both;  ///< the same, and it writes the sum to both rows
  Sum reduce_scatter;
  Sum all_reduce;
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

/// Sets the limit of `sum`: its bytes at the rate of `memory`, with the same number of threads.
void set_limit(Sum& sum, const Sum& memory) {
  sum.limit_ms = memory.times.median() * sum.moved_bytes / memory.moved_bytes;
}

/// Measures the replicas of one process.
class InProcess {
 public:
  explicit InProcess(const CommOptions& options) : options_(options), crew_(options.replicas) {
    for (int r = 0; r < options.replicas; ++r) gradients_.emplace_back(crew_.member(r), options.bytes);
  }

  /// Measures in rounds, so that a change in the machine's speed affects all sums.
  InProcessSums measure() {
    check_sums();
    const std::string by = fmt::format("{} threads", options_.replicas);
    InProcessSums sums{{"memory: a += b", by, 1.5 * all_bytes()},
                       {"memory: a = b = a + b", by, 2 * all_bytes()},
                       {"reduce-scatter", by, all_bytes() + static_cast<double>(options_.bytes)},
                       {"all-reduce", by, 2 * all_bytes()}};
    for (int round = 0; round < kRounds; ++round) {
      time(sums.add, [this](const Group& group) { add(group); });
      time(sums.reduce_scatter, [this](Group& group) { exchange(group, of(group)); });
      time(sums.add_for_both, [this](const Group& group) { add_for_both(group); });
      time(sums.all_reduce, [this](Group& group) { group.all_reduce(of(group).all()); });
    }
    set_limit(sums.reduce_scatter, sums.add);
    set_limit(sums.all_reduce, sums.add_for_both);
    return sums;
  }

 private:
  static constexpr int kRounds = 3;

  // The rows have the size and location of the gradients. Each thread accesses only its own.

  void add(const Group& group) const {
    const auto both = halves(group);  // clang does not accept structured bindings in a simd region
    const std::span<float> a = both.first;
    const std::span<float> b = both.second;
#pragma omp simd
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  }

  void add_for_both(const Group& group) const {
    const auto both = halves(group);  // clang does not accept structured bindings in a simd region
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

  void time(Sum& sum, const Crew::Work& work) {
    const Times times = crew_.time(
        options_.seconds / kRounds, [this](const Group& group) { of(group).fill(group.rank()); }, work);
    sum.times.milliseconds.insert(sum.times.milliseconds.end(), times.milliseconds.begin(),
                                  times.milliseconds.end());
  }

  const CommOptions& options_;
  Crew crew_;
  std::vector<Gradients> gradients_;
};

/// The maximum of each time over the processes.
Times slowest(Processes& processes, const Times& mine) {
  std::vector<float> negated;
  for (const double time : mine.milliseconds) negated.push_back(-static_cast<float>(time));
  processes.lowest(negated);
  Times times;
  for (const float time : negated) times.milliseconds.push_back(-static_cast<double>(time));
  return times;
}

/// Measures one replica in each process. All processes call every function.
class BetweenProcesses {
 public:
  BetweenProcesses(const CommOptions& options, Processes& processes)
      : options_(options),
        processes_(processes),
        member_(processes.join(team_.member(0))),
        gradients_(*member_, options.bytes) {}

  Sum library() {
    return measure("MPI_Allreduce", [this] { processes_.library_all_reduce(gradients_.all()); });
  }
  Sum ours() {
    return measure("all-reduce", [this] { exchange(*member_, gradients_); });
  }

 private:
  template <typename Work>
  Sum measure(const std::string& name, const Work& work) {
    const auto begin = [this] {
      gradients_.fill(processes_.rank());
      processes_.lowest(0);
    };
    begin();
    work();
    require_sum(gradients_.all(), processes_.size());
    // Rank 0 determines the number of calls, so that it is the same for all.
    int calls = std::max(10, static_cast<int>(1e3 * options_.seconds / time_calls(4, begin, work).median()));
    processes_.broadcast(std::as_writable_bytes(std::span(&calls, 1)));
    return {name, fmt::format("{} processes", processes_.size()), 0,
            slowest(processes_, time_calls(calls, begin, work))};
  }

  const CommOptions& options_;
  Processes& processes_;
  ThreadTeam team_{1};
  std::unique_ptr<Group> member_;
  Gradients gradients_;
};

/// Training steps of the workload: `replicas` with one thread in each process, each with the workload's
/// batch.
class Steps {
 public:
  Steps(const std::string& name, int replicas, Processes* processes)
      : processes_(processes), workload_(make_workload(name)), each_(workload_.options.batch) {
    const int64_t batch = each_ * replicas;
    workload_.options.batch = batch * (processes == nullptr ? 1 : processes->size());
    session_ = make_session(workload_, replicas, 1, processes);
    samples_.emplace(workload_, batch);
  }

  /// Repeats the step for `seconds` after a warm-up, at least 4 times, and equally often in all processes.
  void measure(double seconds) {
    std::vector<CommunicationTime> parts;
    const auto step = [&] {
      const StepInputs inputs{.learning_rate = 1e-4F, .step = ++number_, .samples = workload_.options.batch};
      parts.push_back(session_->train(samples_->view(), inputs).communication);
    };
    const auto nothing = [] {};
    int calls = std::max(4, static_cast<int>(1e3 * seconds / time_calls(4, nothing, step).median()));
    if (processes_ != nullptr) processes_->broadcast(std::as_writable_bytes(std::span(&calls, 1)));
    parts.clear();
    Times times = time_calls(calls, nothing, step);
    if (processes_ != nullptr) {
      times = slowest(*processes_, times);
      compare_over(*processes_, parts);
    }
    times_.milliseconds.insert(times_.milliseconds.end(), times.milliseconds.begin(),
                               times.milliseconds.end());
    parts_.insert(parts_.end(), parts.begin(), parts.end());
  }

  const Times& times() const { return times_; }

  /// `single`: the times of one replica alone; null if this is that replica.
  ResultRow row(const std::string& by, const Times* single) const {
    const double scale = static_cast<double>(workload_.options.batch) / static_cast<double>(each_);
    ResultRow row{
        {fmt::format("step, {} samples each", each_), by},
        Measured{times_, 0, 0, single == nullptr ? 0 : single->median(), false, std::nullopt},
        "",
        {{"images per second", "", 1e3 * static_cast<double>(workload_.options.batch) / times_.median()},
         {"× one", "", single == nullptr ? 1 : scale * single->median() / times_.median()}}};
    if (single == nullptr) return row;
    double seconds = 0;
    for (const double time : times_.milliseconds) seconds += time / 1e3;
    const CommunicationTime parts = parts_of(parts_, seconds);
    row.figures.push_back({"in backward", "%", 100 * parts.within_gradient});
    row.figures.push_back({"exposed", "%", 100 * parts.exposed});
    row.figures.push_back({"waiting", "%", 100 * parts.waiting});
    return row;
  }

 private:
  Processes* processes_;
  Workload workload_;
  int64_t each_;  ///< samples per replica
  std::unique_ptr<Session> session_;
  std::optional<Samples> samples_;
  int64_t number_ = 0;
  Times times_;
  std::vector<CommunicationTime> parts_;
};

/// Measures one thread, the replicas of this process, and a pipeline with the same number of stages.
Times add_steps(Result& result, const CommOptions& options) {
  constexpr int kRounds = 3;
  Steps single(options.workload, 1, nullptr);
  Steps mirrored(options.workload, options.replicas, nullptr);
  for (int round = 0; round < kRounds; ++round) {
    single.measure(options.seconds / kRounds);
    mirrored.measure(options.seconds / kRounds);
  }
  result.rows.push_back(single.row("1 thread", nullptr));
  result.rows.push_back(
      mirrored.row(fmt::format("{} replicas × 1 thread", options.replicas), &single.times()));
  const size_t before = result.rows.size();
  add_pipeline_rows(
      result,
      {.workload = options.workload, .stages = options.replicas, .rounds = 2, .seconds = options.seconds});
  for (size_t i = before; i < result.rows.size(); ++i)
    result.rows[i].setting.front() = "step, " + result.rows[i].setting.front();
  return single.times();
}

std::string comparison(const Sum& library, const Sum& ours, const InProcessSums& sums, int processes) {
  const double median = library.times.median();
  return fmt::format(
      "MPI_Allreduce between {} processes takes {:.1f} times as long as our all-reduce between {}, {:.1f} times as long as our reduce-scatter, and {:.2f} times as long as our all-reduce between {} processes.",
      processes, median / sums.all_reduce.times.median(), sums.all_reduce.by,
      median / sums.reduce_scatter.times.median(), median / ours.times.median(), processes);
}

}  // namespace

std::optional<Result> measure_communication(const CommOptions& options, Processes* processes) {
  check(options);
  make_workload(options.workload);  // throws before anything is measured
  const bool first = processes == nullptr || processes->rank() == 0;
  const MachineWatch watch;
  Result result{"comm",
                fmt::format("{} MiB of gradients on each replica{}", options.bytes >> 20,
                            options.steps ? "; steps of " + options.workload : ""),
                {"what", "by"},
                {},
                "",
                0,
                {},
                {}};
  InProcessSums sums;
  Times single;
  if (first) {
    sums = InProcess(options).measure();
    for (const Sum* sum : {&sums.add, &sums.add_for_both, &sums.reduce_scatter, &sums.all_reduce})
      result.rows.push_back(sum->row());
    if (options.steps) single = add_steps(result, options);
  }
  if (processes != nullptr) {
    processes->sleep_until_all_come();
    {
      BetweenProcesses between(options, *processes);
      const Sum library = between.library();
      Sum ours = between.ours();
      if (first && processes->size() == options.replicas) {
        ours.moved_bytes = sums.all_reduce.moved_bytes;
        set_limit(ours, sums.add_for_both);
      }
      if (first) {
        result.rows.push_back(library.row());
        result.rows.push_back(ours.row());
        result.remarks.push_back(comparison(library, ours, sums, processes->size()));
      }
    }
    if (options.steps) {
      Steps steps(options.workload, 1, processes);
      steps.measure(options.seconds);
      if (first)
        result.rows.push_back(steps.row(fmt::format("{} processes × 1 thread", processes->size()), &single));
    }
  }
  if (!first) return std::nullopt;
  watch.finish(result);
  return result;
}

}  // namespace telar::bench
