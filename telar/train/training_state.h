#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "telar/data/assignment.h"
#include "telar/data/batch_source.h"
#include "telar/train/run_losses.h"
#include "telar/train/stream_evaluation.h"

namespace telar {

/// What a PlateauSchedule has made of the validations so far.
struct Plateau {
  double factor = 1;           ///< by which the rate is multiplied
  std::optional<double> best;  ///< the deciding metric in the best epoch so far
  int64_t epochs = 0;          ///< since then, or since the rate was lowered

  bool operator==(const Plateau&) const = default;
};

/// The position of a training between two steps. Together with the session's state it is all that a run needs
/// to resume. Random numbers depend only on seed, epoch and sample, so there is no generator state to save.
struct TrainingState {
  int64_t epoch = 0;          ///< the current epoch, from 0; the number of epochs when all are done
  int64_t step_in_epoch = 0;  ///< steps completed in it; all, if a stop broke off the validation after them
  /// Of the order of the epoch's samples, in which the completed steps are the first ones.
  int64_t order_version = kOrderVersion;
  /// Where the next step begins in the source of the samples. Empty: at the beginning of the epoch, or at a
  /// step that the source can find. Before the first step of an epoch that begins anew, where the one before
  /// has ended.
  Position position;
  int64_t step = 0;      ///< steps completed in total
  int64_t samples = 0;   ///< samples trained on in total
  int64_t left_out = 0;  ///< damaged messages of a stream in these steps, in total
  /// That parameter servers have made of these steps; a push may be of several. Empty: none have made them.
  std::optional<int64_t> updates;
  std::optional<RunLosses> losses;  ///< up to here, with parameter servers
  double seconds = 0;               ///< time spent in training steps

  int64_t epoch_samples = 0;       ///< samples of this epoch so far
  std::vector<double> epoch_sums;  ///< metric sums of this epoch so far

  std::optional<double> best;  ///< the deciding metric in the best epoch so far
  int64_t best_step = 0;       ///< steps completed at the end of that epoch
  int64_t epochs_since_best = 0;
  bool stopped_early = false;

  std::optional<Plateau> plateau;              ///< with a PlateauSchedule, after the first validation
  std::optional<StreamEvaluation> evaluation;  ///< of a stream

  bool operator==(const TrainingState&) const = default;
};

/// Conversion to and from JSON; doubles are preserved exactly. `source` is the file. from_json throws Error
/// (user) for a missing field, a value out of range, and fields that contradict each other.
std::string to_json(const TrainingState& state);
TrainingState training_state_from_json(const std::string& text, const std::string& source);

/// The size of a job's epochs.
struct EpochSize {
  int64_t steps = 0;
  size_t metrics = 0;  ///< of a step
};

/// Throws Error (user) if the state is not one between two steps of epochs of this size. `source` is its
/// file.
void check_position(const TrainingState& state, const EpochSize& size, const std::string& source);

}  // namespace telar
