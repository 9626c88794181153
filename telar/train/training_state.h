#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace telar {

/// Where a training stands between two steps: together with the session's state all that a run needs to go on. Random numbers
/// depend on seed, epoch and sample alone, so there is no generator to save.
struct TrainingState {
  int64_t epoch = 0;          ///< the one being worked on, from 0; the number of epochs when all are done
  int64_t step_in_epoch = 0;  ///< steps done of it
  int64_t step = 0;           ///< steps done in all
  int64_t samples = 0;        ///< samples trained on in all
  double seconds = 0;         ///< spent in training steps

  int64_t epoch_samples = 0;       ///< of this epoch so far
  std::vector<double> epoch_sums;  ///< metric sums of this epoch so far

  std::optional<double> best;  ///< value of the deciding metric in the best epoch so far
  int64_t best_step = 0;       ///< steps done at its end
  int64_t epochs_since_best = 0;
  bool stopped_early = false;

  bool operator==(const TrainingState&) const = default;
};

/// As JSON and back; doubles keep their bits. from_json throws Error (user), `source` being the file.
std::string to_json(const TrainingState& state);
TrainingState training_state_from_json(const std::string& text, const std::string& source);

}  // namespace telar
