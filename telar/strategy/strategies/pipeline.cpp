#include <algorithm>
#include <limits>

#include "telar/core/error.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/stage_cuts.h"
#include "telar/strategy/stage_graphs.h"
#include "telar/strategy/strategy.h"

namespace telar {

namespace {

/// Searches the cuts with the shortest simulated step. Starting from an even split, it moves each cut in turn
/// to its best place, until no move helps. (With two stages this tries every place.)
class CutSearch {
 public:
  CutSearch(const TrainingStep& step, const StageCuts& cuts, const std::vector<bool>& left,
            const std::vector<double>& seconds, const Cluster& cluster, int64_t micro_batches)
      : step_(step), cuts_(cuts), left_(left), seconds_(seconds), micro_batches_(micro_batches) {
    for (const DeviceSpec& device : cluster.devices) threads_.push_back(device.threads);
    for (const size_t place : cuts.places()) crossing_.push_back(cuts.crossing_bytes(place));
  }

  std::vector<size_t> best() const {
    const std::vector<size_t>& places = cuts_.places();
    const size_t cuts = threads_.size() - 1;
    std::vector<size_t> chosen;  // indices of places
    for (size_t c = 0; c < cuts; ++c) chosen.push_back((c + 1) * places.size() / (cuts + 1));
    double shortest = step_seconds(chosen);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t c = 0; c < cuts; ++c) {
        const size_t begin = c == 0 ? 0 : chosen[c - 1] + 1;
        const size_t end = c + 1 == cuts ? places.size() : chosen[c + 1];
        for (size_t place = begin; place < end; ++place) {
          std::vector<size_t> other = chosen;
          other[c] = place;
          const double seconds = step_seconds(other);
          if (seconds >= shortest) continue;
          shortest = seconds;
          chosen = other;
          moved = true;
        }
      }
    }
    return places_of(chosen);
  }

 private:
  std::vector<size_t> places_of(const std::vector<size_t>& chosen) const {
    std::vector<size_t> places;
    for (const size_t index : chosen) places.push_back(cuts_.places()[index]);
    return places;
  }

  double step_seconds(const std::vector<size_t>& chosen) const {
    // A value is read from another core's cache, or written through to memory.
    constexpr double kBytesPerSecond = 1e10;
    std::vector<StageSeconds> stages(threads_.size());
    const std::vector<int> stage_of_node = cuts_.stages(places_of(chosen));
    const auto micro_batches = static_cast<double>(micro_batches_);
    for (size_t n = 0; n < stage_of_node.size(); ++n) {
      if (stage_of_node[n] < 0) continue;
      StageSeconds& stage = stages[static_cast<size_t>(stage_of_node[n])];
      if (left_[n]) {
        stage.weight_gradients += seconds_[n];
      } else {
        (n < step_.forward_nodes ? stage.forward : stage.backward) += seconds_[n] / micro_batches;
      }
    }
    for (size_t c = 0; c < chosen.size(); ++c) {
      const double seconds = crossing_[chosen[c]] / micro_batches / kBytesPerSecond / 2;
      stages[c + 1].forward += seconds;
      stages[c].backward += seconds;
    }
    for (size_t s = 0; s < stages.size(); ++s) {
      stages[s].forward /= threads_[s];
      stages[s].backward /= threads_[s];
      stages[s].weight_gradients /= threads_[s];
    }
    return simulate_step(stages, micro_batches_);
  }

  const TrainingStep& step_;
  const StageCuts& cuts_;
  const std::vector<bool>& left_;
  const std::vector<double>& seconds_;
  int64_t micro_batches_;
  std::vector<int> threads_;
  std::vector<double> crossing_;  // bytes, by place
};

/// Pipeline parallelism. The layers are cut into stages, one per device, and the batch into micro-batches,
/// which pass through the stages one after another: one forward, one backward (Narayanan et al., 2021).
/// Gradients are summed over the micro-batches, and each stage updates an equal part of all parameters once
/// per step. The gradient is that of the whole batch, except that batch normalisation uses the statistics of
/// each micro-batch. Its running averages equal those of mirrored with one replica per micro-batch.
class Pipeline final : public Strategy {
 public:
  /// 0: four micro-batches for each stage.
  explicit Pipeline(int64_t micro_batches) : micro_batches_(micro_batches) {}

  /// One stage needs no balance.
  int64_t measured_micro_batches(const Cluster& cluster) const override {
    return cluster.devices.size() > 1 ? micro_batches(cluster) : 0;
  }

  Program rewrite(const TrainingStep& step, const Cluster& cluster,
                  const std::vector<OperationCost>& costs) const override {
    check(cluster);
    const auto stages = static_cast<int>(cluster.devices.size());
    const int64_t parts = micro_batches(cluster);
    const StageCuts cuts(step);
    if (cuts.places().size() + 1 < cluster.devices.size()) {
      throw user_error(
          "this model can be cut at {} places, so it has at most {} stages, not {}; lower strategy.stages",
          cuts.places().size(), cuts.places().size() + 1, stages);
    }
    const int64_t batch = step.gradient.batch();
    const Graph micro = step.gradient.with_batch((batch + parts - 1) / parts);
    const std::vector<bool> left = left_for_the_end(step, cuts, micro);
    const std::vector<double> seconds = node_seconds(step.gradient, costs, left);
    const CutSearch search(step, cuts, left, seconds, cluster, parts);
    const auto graphs = make_stage_graphs(step, cuts.stages(search.best()), stages, left, micro);

    Program program = program_of(step, "pipeline");
    program.micro_batches = parts;
    for (int s = 0; s < stages; ++s) {
      const StageGraphs& mine = graphs[static_cast<size_t>(s)];
      std::vector<ScheduledAction> schedule = one_forward_one_backward(s, stages, parts);
      for (const ScheduledAction& last :
           {action::weight_gradients(), action::exchange_metrics(), action::exchange_norm(),
            action::update_shard(), action::wait_for_all()}) {
        schedule.push_back(last);
      }
      program.workers.push_back({s, mine.micro_batch, std::move(schedule), mine.weight_gradients});
    }
    return program;
  }

 private:
  static void check(const Cluster& cluster) {
    if (cluster.devices.empty()) throw user_error("strategy 'pipeline' needs at least 1 stage");
    if (cluster.processes != 1) {
      throw user_error("strategy 'pipeline' has all its stages in one process, not {}; choose 'mirrored'",
                       cluster.processes);
    }
  }

  int64_t micro_batches(const Cluster& cluster) const {
    return micro_batches_ > 0 ? micro_batches_ : 4 * static_cast<int64_t>(cluster.devices.size());
  }

  int64_t micro_batches_;
};

}  // namespace

void register_pipeline(StrategyRegistry& registry) {
  registry.add(
      {.name = "pipeline",
       .summary =
           "the layers are divided into stages, and the micro-batches of a batch pass through them one after another",
       .worker = "stage",
       .count = "stages",
       .on_gpus = false,
       .options =
           {{.name = "stages",
             .fallback = int64_t{2},
             .rule = {.least = 1, .most = 1024},
             .help =
                 "Number of stages. The layers are divided so that the slowest stage is as fast as possible, by the measured time of each operation."},
            {.name = "micro_batches",
             .fallback = int64_t{0},
             .rule = {.least = 0, .most = 65536},
             .help =
                 "Number of micro-batches into which each batch is divided. 0: four per stage. Batch normalisation uses the statistics of each micro-batch."}},
       .make = [](const Attributes& options) {
         return std::make_unique<Pipeline>(options.integer("micro_batches"));
       }});
}

}  // namespace telar
