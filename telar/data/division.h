#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telar/data/selection.h"

namespace telar {

/// What decides which samples are set aside.
enum class SplitBy : uint8_t {
  random,      ///< chance
  stratified,  ///< chance, with the same part of each class
  group,       ///< chance, with all samples of a group on one side
  time,        ///< the latest ones are set aside
  column       ///< a column of the table names each sample's part
};
/// Their names, as in a job.
std::vector<std::string> split_names();
/// Throws Error (user) for an unknown name.
SplitBy split_named(const std::string& name);

/// Of each sample, what its division depends on: its class (stratified), the number of its group, its time as
/// a rank (equal for equal times), or its SplitPart (column). Empty for random.
using SplitKeys = std::vector<int64_t>;

/// A sample's part, if a column names it.
enum SplitPart : int64_t { kTrainingPart, kValidationPart, kTestPart };

/// How much is set aside.
struct HeldOutShare {
  double fraction = 0;  ///< of the samples, rounded to the nearest number
  int64_t folds = 0;    ///< above 0: one of so many folds instead, which together are all samples
  int64_t fold = 1;     ///< 1 … folds
};

struct DividedSamples {
  Selection train;
  Selection held_out;
};

/// Divides the samples 0 … size-1; the result depends only on the arguments. Not for SplitBy::column.
///
/// random, and stratified: each fold, and of each class its part in a fold or fraction, is as large as the
/// others up to one sample. group: whole groups, so sizes are as near to the fraction as groups allow; of
/// folds, the largest group comes first, each into the smallest fold. time: the latest samples; of k folds
/// the first of k + 1 equal stretches of time is only trained on, and fold i is stretch i + 1, with all that
/// is before it to train on and nothing that is after it. Equal times are on one side.
///
/// Throws Error (user) when a part would be empty, and if there are fewer groups or times than are needed.
DividedSamples divide_samples(int64_t size, SplitBy by, const SplitKeys& keys, const HeldOutShare& share,
                              uint64_t seed);

}  // namespace telar
