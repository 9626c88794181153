#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telar/comm/processes.h"
#include "telar/train/data_record.h"
#include "telar/train/job.h"
#include "telar/train/pipeline.h"

namespace telar {

/// What one process has found in the data of a run and decides for all of its processes: rank 0 over MPI, the
/// coordinator with parameter servers. The others must find the same, and check and measure nothing
/// themselves. So a number means the same sample in each of them, even if one of them cannot read a file for
/// a moment.
struct DataDecision {
  /// Before samples are left out. Of other sources than image folders it has no files, because on another
  /// host these may have other names or be compressed.
  DataRecord found;
  uint32_t samples_crc32 = 0;  ///< of some training samples, for sources in memory
  LeftOut left_out;
  std::vector<double> mean;
  std::vector<double> std;
};

std::string to_json(const DataDecision& decision);
/// `source` is the sender, for messages. Throws Error (user).
DataDecision data_decision_from_json(const std::string& text, const std::string& source);

/// The datasets of a job in the process that decides, and its decision.
struct DecidedDatasets {
  Datasets data;
  DataDecision decision;
};
DecidedDatasets open_and_decide(DataJob& data, uint64_t seed, const SampleChecks& checks);

/// The datasets of a process that comes later, as was decided. `threads` read the sizes of image files.
/// Throws Error (user) if the samples found here are not those that were found then.
Datasets open_datasets_as_decided(DataJob& data, uint64_t seed, const DataDecision& decision, int threads);

/// The datasets of a worker, of which it uses only the training samples, as the coordinator has decided.
/// `threads` read the sizes of image files. Throws Error (user) if the training samples found here are not
/// those of the coordinator.
DatasetPtr open_train_dataset_as_decided(DataJob& data, uint64_t seed, const DataDecision& decision,
                                         int threads);

/// The decision for the workers of a stream: how its messages are read.
DataDecision decide_on_stream(const DataJob& data);
/// Throws Error (user) if messages would be read in another way here.
void require_as_decided(const DataJob& stream, const DataDecision& decision);

/// The datasets of each process over MPI, and what rank 0 has decided. All processes throw Error (user) if
/// one of them has found other data than rank 0.
DecidedDatasets open_datasets_together(DataJob& data, uint64_t seed, const SampleChecks& checks,
                                       Processes& all);

}  // namespace telar
