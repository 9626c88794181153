#pragma once

#include <cstdint>
#include <optional>

#include "telar/comm/processes.h"
#include "telar/data/assignment.h"
#include "telar/data/dataset_batches.h"
#include "telar/train/data_record.h"
#include "telar/train/job.h"
#include "telar/train/pipeline.h"

namespace telar {

/// The data as one rank has them: {rank} in the paths is its number.
DataJob data_of_rank(const DataJob& data, int rank);

/// The datasets of a job whose processes have samples of their own (data.spread).
struct SpreadDatasets {
  Datasets data;
  DataRecord record;  ///< of all parts
};

/// Opens this process's part of each dataset: the files that the paths of the job name here, in which {rank}
/// stands for its rank. Processes exchange sizes, names of classes and sums for means and deviations, but no
/// samples: the classes are those of all parts, sorted, and a sample's number counts the samples of the ranks
/// before. `all` is null if there is only this process, `checks` as for open_datasets().
///
/// All processes throw the same Error, which names the rank: what open_datasets() throws in one of them,
/// samples of different forms, or two processes with the same samples.
///
/// Means and deviations are written into the job. Of several processes, each must take a share of every
/// batch: Error (user) for other strategies.
SpreadDatasets open_spread_datasets(Job& job, const SampleChecks* checks, Processes* all);

/// The form of a job's samples: what the job says of it, or what the files say, of spread data those of rank
/// 0. Means and deviations that are measured are written into the job.
SampleSpec spec_of_samples(Job& job);

/// How the batches of samples are made.
struct SpreadOrder {
  int64_t batch = 1;
  uint64_t seed = 0;  ///< of order and augmentation
  bool shuffle = false;
};

/// This process's share of the batches of samples of which it has a part.
class SpreadBatches {
 public:
  SpreadBatches(const Dataset& data, const PartSizes& sizes, size_t own, const SpreadOrder& order)
      : assignment_(sizes, own, order.batch, order.seed, order.shuffle),
        batches_(data, assignment_, order.seed) {}

  const BatchSource& source() const { return batches_; }

 private:
  SpreadSlice assignment_;
  DatasetBatches batches_;
};

}  // namespace telar
