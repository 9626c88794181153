#include "telar/strategy/cut_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace telar {

namespace {

/// Searches the cuts with the shortest simulated step. Starting from an even split, it moves each cut in turn
/// to its best place, until no move helps. (With two stages this tries every place.)
class CutSearch {
 public:
  CutSearch(const CutProblem& problem, int64_t micro_batches)
      : step_(problem.step),
        cuts_(problem.cuts),
        all_places_(problem.places),
        left_(problem.left),
        seconds_(problem.seconds),
        update_(problem.update),
        threads_(problem.threads),
        together_(static_cast<size_t>(problem.together)),
        speeds_(problem.speeds),
        micro_batches_(micro_batches) {
    for (const size_t place : all_places_) crossing_.push_back(cuts_.crossing_bytes(place));
  }

  std::vector<size_t> best() const {
    const std::vector<size_t>& places = all_places_;
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
    for (const size_t index : chosen) places.push_back(all_places_[index]);
    return places;
  }

  double step_seconds(const std::vector<size_t>& chosen) const {
    std::vector<StageSeconds> stages(threads_.size());
    std::vector<double> updates(threads_.size());
    const std::vector<int> stage_of_node = cuts_.stages(places_of(chosen));
    const auto micro_batches = static_cast<double>(micro_batches_);
    for (size_t n = 0; n < stage_of_node.size(); ++n) {
      if (stage_of_node[n] < 0) continue;
      StageSeconds& stage = stages[static_cast<size_t>(stage_of_node[n])];
      updates[static_cast<size_t>(stage_of_node[n])] += update_[n];
      if (left_[n]) {
        stage.weight_gradients += seconds_[n];
      } else {
        (n < step_.forward_nodes ? stage.forward : stage.backward) += seconds_[n] / micro_batches;
      }
    }
    for (size_t c = 0; c < chosen.size(); ++c) {
      const double seconds = crossing_[chosen[c]] / micro_batches / speeds_[c] / 2;
      stages[c + 1].forward += seconds;
      stages[c].backward += seconds;
    }
    for (size_t s = 0; s < stages.size(); ++s) {
      stages[s].forward /= threads_[s];
      stages[s].backward /= threads_[s];
      stages[s].weight_gradients /= threads_[s];
    }
    return simulate_step(stages, micro_batches_) + longest_update(updates);
  }

  /// Seconds from the moment at which all stages have exchanged their metrics. `updates`: of each stage.
  double longest_update(const std::vector<double>& updates) const {
    double longest = 0;
    for (size_t begin = 0; begin < updates.size(); begin += together_) {
      const size_t end = std::min(begin + together_, updates.size());
      longest = std::max(longest, std::accumulate(updates.begin() + begin, updates.begin() + end, 0.0) /
                                      std::accumulate(threads_.begin() + begin, threads_.begin() + end, 0));
    }
    return longest;
  }

  const TrainingStep& step_;
  const StageCuts& cuts_;
  const std::vector<size_t>& all_places_;
  const std::vector<bool>& left_;
  const std::vector<double>& seconds_;
  const std::vector<double>& update_;
  const std::vector<int>& threads_;
  size_t together_;
  const std::vector<double>& speeds_;
  int64_t micro_batches_;
  std::vector<double> crossing_;  // bytes, by place
};

}  // namespace

std::vector<size_t> best_cuts(const CutProblem& problem, int64_t micro_batches) {
  return CutSearch(problem, micro_batches).best();
}

}  // namespace telar
