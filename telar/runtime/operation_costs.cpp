#include "telar/runtime/operation_costs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "telar/core/random.h"
#include "telar/data/assignment.h"
#include "telar/runtime/batch_parts.h"
#include "telar/runtime/session.h"

namespace telar {

namespace {

constexpr uint64_t kSeed = 7;
const std::string kReorder = " (reorder)";

/// Random samples of the step's types: noise, or 0 for integers (a class, a token).
struct RandomBatch {
  RandomBatch(const Graph& gradient, int64_t size) : samples(static_cast<size_t>(size)) {
    std::iota(samples.begin(), samples.end(), 0);
    for (const auto& [name, input] : sample_inputs(gradient)) {
      std::vector<float>& all = values[name];
      all.resize(static_cast<size_t>(size) * input.sample_bytes() / sizeof(float));  // also i32 0
      RandomSequence random(kSeed, 1);
      for (float& value : all) value = input.dtype == DType::f32 ? random.normal() : value;
    }
  }
  /// `all`: see BatchView.
  BatchView view(int64_t all = 0) const {
    BatchView view{.size = static_cast<int64_t>(samples.size()), .sample = samples.data(), .all = all};
    for (const auto& [name, of_input] : values) view.inputs.push_back({name, of_input.data()});
    return view;
  }

  std::map<std::string, std::vector<float>> values;
  std::vector<int64_t> samples;
};

/// Layer and operation.
using Key = std::pair<std::string, std::string>;

/// Seconds by layer and operation, the minimum over several runs. Reorders are listed separately under the
/// operation's name with " (reorder)". `all`: see BatchView.
std::map<Key, double> profile(Session& session, const Graph& gradient, int64_t batch, int64_t all = 0) {
  constexpr int kRuns = 4;  // the first run compiles
  const RandomBatch samples(gradient, batch);
  std::map<Key, double> least;
  for (int run = 0; run < kRuns; ++run) {
    std::map<Key, double> seconds;
    for (const OperationTime& time : session.profile(samples.view(all), {.learning_rate = 0, .step = 1}))
      seconds[{time.scope, time.op}] += time.seconds;
    for (const auto& [key, time] : seconds) {
      const auto [known, fresh] = least.emplace(key, time);
      if (!fresh) known->second = std::min(known->second, time);
    }
  }
  return least;
}

bool is_reorder(const Key& key) { return key.second.ends_with(kReorder); }

/// Returns the entry of an operation, or of the operation that a reorder belongs to; adds it if there is
/// none.
OperationCost& cost_of(std::map<Key, OperationCost>& costs, const Key& key) {
  const std::string op = key.second.substr(0, key.second.find(kReorder));
  return costs.emplace(Key{key.first, op}, OperationCost{key.first, op}).first->second;
}

std::vector<OperationCost> listed(const std::map<Key, OperationCost>& costs) {
  std::vector<OperationCost> all;
  for (const auto& entry : costs) all.push_back(entry.second);
  return all;
}

/// The sums of what all processes have measured, divided by `by`.
std::vector<OperationCost> of_all(const std::vector<OperationCost>& costs, Processes& processes, double by) {
  std::string mine;
  for (const OperationCost& cost : costs)
    mine += fmt::format("{}\n{}\n{} {}\n", cost.scope, cost.op, cost.batch, cost.micro_batches);
  std::map<Key, OperationCost> all;
  for (const std::string& of_process : processes.gather(mine)) {
    std::istringstream lines(of_process);
    OperationCost cost;
    while (std::getline(lines, cost.scope) && std::getline(lines, cost.op) &&
           lines >> cost.batch >> cost.micro_batches) {
      lines.ignore();  // the end of the line
      OperationCost& sum = cost_of(all, {cost.scope, cost.op});
      sum.batch += cost.batch / by;
      sum.micro_batches += cost.micro_batches / by;
    }
  }
  return listed(all);
}

/// The seconds of the fastest of several calls.
double fastest(const std::function<void()>& call) {
  constexpr int kCalls = 5;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kCalls; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

/// Bytes a second that this thread reads and writes.
double memory_speed() {
  constexpr size_t kFloats = 1 << 21;
  std::vector<float> from(kFloats, 1.0F);
  std::vector<float> to(kFloats);
  const double seconds = fastest([&] {
    for (size_t i = 0; i < kFloats; ++i) to[i] += from[i];
  });
  return 3.0 * sizeof(float) * kFloats / seconds;
}

/// Bytes a second from one process to another, in messages as they pass between stages.
double link_speed(Processes& processes) {
  const int size = processes.size();
  std::vector<std::byte> sent(1 << 20);
  std::vector<std::byte> received(sent.size());
  const auto to = processes.message_to((processes.rank() + 1) % size, 0, sent);
  const auto from = processes.message_from((processes.rank() + size - 1) % size, 0, received);
  const double seconds = fastest([&] {
    from->start();
    to->start();
    while (!from->done() || !to->done()) {
      processes.check();
      std::this_thread::yield();
    }
  });
  return static_cast<double>(sent.size()) / seconds;
}

/// The cluster with speeds on which all processes agree: those of the slowest.
Cluster with_speeds(Cluster cluster, Processes* processes) {
  cluster.memory_speed = memory_speed();
  if (processes == nullptr) return cluster;
  std::array<float, 2> speeds{static_cast<float>(cluster.memory_speed),
                              static_cast<float>(link_speed(*processes))};
  processes->lowest(std::span<float>(speeds));
  cluster.memory_speed = speeds[0];
  cluster.link_speed = speeds[1];
  return cluster;
}

struct Trial {
  std::vector<OperationCost> costs;  ///< in the stages, whether per micro-batch or once
  double step = 0;                   ///< seconds, the minimum over several steps
};

/// The samples of a batch that a process computes.
int64_t samples_here(const Program& program, int process, int64_t batch) {
  const BatchShare share = shares_of(program, process);
  const Part part{share.begin, share.end, share.of, program.least.part};
  return part.last(batch) - part.first(batch);
}

/// Trains this pipeline for some steps on random samples.
Trial try_out(const Program& pipeline, const TrainingStep& step, const Cluster& cluster,
              Processes* processes) {
  constexpr int kSteps = 5;
  Session session(pipeline, cluster, {.seed = kSeed, .processes = processes});
  std::map<Key, OperationCost> costs;
  const int64_t all = step.gradient.batch();
  const int64_t batch = samples_here(pipeline, cluster.process, all);
  for (const auto& [key, seconds] : profile(session, step.gradient, batch, all)) {
    OperationCost& cost = cost_of(costs, key);
    cost.batch += seconds;
    cost.micro_batches += seconds;
  }
  Trial trial{listed(costs), std::numeric_limits<double>::infinity()};
  const RandomBatch samples(step.gradient, batch);
  for (int64_t s = 1; s <= kSteps; ++s) {
    const auto start = std::chrono::steady_clock::now();
    session.train(samples.view(all), {.learning_rate = 0, .step = s, .samples = all});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    trial.step = std::min(trial.step, seconds.count());
  }
  return trial;
}

}  // namespace

std::vector<OperationCost> measure_costs(const TrainingStep& step, const DeviceSpec& device,
                                         int64_t micro_batches) {
  const int64_t batch = step.gradient.batch();
  const int64_t micro_batch = (batch + micro_batches - 1) / micro_batches;
  const Cluster cluster{{device}};
  Session session(sequential_program(step), cluster, {.seed = kSeed});
  std::map<Key, OperationCost> costs;
  for (const auto& [key, seconds] : profile(session, step.gradient, batch))
    cost_of(costs, key).batch += seconds;
  for (const auto& [key, seconds] : profile(session, step.gradient, micro_batch)) {
    // Weights are reordered once per step.
    cost_of(costs, key).micro_batches +=
        is_reorder(key) ? seconds : seconds * static_cast<double>(micro_batches);
  }
  return listed(costs);
}

Program measured_program(const Strategy& strategy, const TrainingStep& step, const Cluster& cluster,
                         Processes* processes) {
  constexpr int kRounds = 3;
  const int64_t micro_batches = strategy.measured_micro_batches(step, cluster);
  if (micro_batches == 0) return strategy.rewrite(step, cluster);
  std::vector<OperationCost> costs = measure_costs(step, cluster.devices.front(), micro_batches);
  if (processes != nullptr) costs = of_all(costs, *processes, processes->size());
  const Cluster measured = with_speeds(cluster, processes);
  Program best;
  double shortest = std::numeric_limits<double>::infinity();
  std::set<std::string> tried;
  for (int round = 0; round < kRounds; ++round) {
    Program program = strategy.rewrite(step, measured, costs);
    const bool fresh = tried.insert(program.str()).second;
    if (processes == nullptr ? !fresh : !processes->any(fresh)) break;
    Trial trial = try_out(program, step, cluster, processes);
    costs = std::move(trial.costs);
    if (processes != nullptr) {
      costs = of_all(costs, *processes, 1);
      processes->broadcast(std::as_writable_bytes(std::span(&trial.step, 1)));
    }
    if (trial.step >= shortest) continue;
    shortest = trial.step;
    best = std::move(program);
  }
  return best;
}

}  // namespace telar
