#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace telar {

struct ConstantSchedule {};

/// The rate is multiplied by `gamma` at each milestone and, if `every` is set, once every `every` steps.
struct StepSchedule {
  std::vector<int64_t> milestones;  ///< steps done when gamma first applies (epochs × steps per epoch)
  int64_t every = 0;                ///< steps; 0: never
  double gamma = 0.1;
};

/// The rate is multiplied by `gamma` in every `every` steps, a little in each.
struct ExponentialSchedule {
  double gamma = 0.5;
  int64_t every = 1;  ///< steps, at least 1
};

/// base / (1 + decay · steps done / every): the sum of all rates has no bound, that of their squares has one
/// (Robbins and Monro, 1951).
struct InverseTimeSchedule {
  double decay = 1;
  int64_t every = 1;  ///< steps, at least 1
};

/// Half a cosine from the base rate, at the end of warm-up, to `minimum`, at the end of training (Loshchilov
/// and Hutter, "SGDR", 2017, without restarts).
struct CosineSchedule {
  double minimum = 0;
};

/// The rate is multiplied by `gamma` whenever a metric of the validation has not improved for `patience`
/// epochs, down to `minimum`. That follows from the results (TrainingState::plateau), so learning_rate()
/// leaves it out.
struct PlateauSchedule {
  int64_t patience = 5;
  double gamma = 0.1;
  double minimum = 0;
};

/// A learning rate as a pure function of the step number: it has no state to save or restore.
struct Schedule {
  double base = 0.01;
  std::variant<ConstantSchedule, StepSchedule, ExponentialSchedule, InverseTimeSchedule, CosineSchedule,
               PlateauSchedule>
      shape;
  int64_t warmup_steps = 0;  ///< first steps, in which the rate rises linearly; the last has the base rate
  double warmup_from = 0;    ///< the rate at the start of the warm-up
  int64_t total_steps = 0;   ///< of the whole training, including warm-up; required for the cosine
};

/// The rate of step 1, 2, …; after `total_steps` a cosine stays at its minimum. Throws Error (user) for a
/// step below 1, and for a cosine without total_steps.
double learning_rate(const Schedule& schedule, int64_t step);

/// Number of steps in `epochs`, rounded to the nearest, at least 0: for "warm-up of half an epoch".
int64_t steps_of_epochs(double epochs, int64_t steps_per_epoch);

}  // namespace telar
