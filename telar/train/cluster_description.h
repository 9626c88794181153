#pragma once

#include <string>

#include "telar/comm/store/store_update.h"
#include "telar/data/dataset.h"
#include "telar/train/job.h"

namespace telar {

/// What the coordinator sends to the workers and parameter servers of a run, as JSON: the job with all
/// defaults, and the description of a sample. Every process of the run builds the same program from it.
struct ClusterDescription {
  Job job;
  SampleSpec spec;
  int server = -1;  ///< the index of the parameter server that receives it
};

std::string to_json(const ClusterDescription& description);
/// `source` is the sender, for messages. Throws Error (user).
ClusterDescription cluster_description_from_json(const std::string& text, const std::string& source);

/// Creates a parameter server's update from its ClusterDescription: the server's update graph, compiled for
/// one thread.
StoreUpdateFactory job_store_updates();

}  // namespace telar
