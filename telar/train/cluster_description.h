#pragma once

#include <string>

#include "telar/comm/store/store_update.h"
#include "telar/data/dataset.h"
#include "telar/train/job.h"

namespace telar {

/// What the coordinator tells workers and parameter servers of a run, as JSON: the job with all defaults, and what a sample looks
/// like. Any process of the run builds the same program from it.
struct ClusterDescription {
  Job job;
  SampleSpec spec;
  int server = -1;  ///< for a parameter server: which one it is
};

std::string to_json(const ClusterDescription& description);
/// Throws Error (user), `source` being who sent it.
ClusterDescription cluster_description_from_json(const std::string& text, const std::string& source);

/// Makes a parameter server's update from its ClusterDescription: the server's update graph, compiled for one thread.
StoreUpdateFactory job_store_updates();

}  // namespace telar
