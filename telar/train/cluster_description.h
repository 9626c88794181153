#pragma once

#include <optional>
#include <string>

#include "telar/comm/store/store_update.h"
#include "telar/data/dataset.h"
#include "telar/train/data_decision.h"
#include "telar/train/job.h"

namespace telar {

/// What the coordinator sends to the workers and parameter servers of a run, as JSON: the job with all
/// defaults, and the description of a sample. Every process of the run builds the same program from it.
struct ClusterDescription {
  Job job;
  SampleSpec spec;
  std::optional<DataDecision> data = {};  ///< for workers; servers open no data
  int server = -1;                        ///< the index of the parameter server that receives it
};

std::string to_json(const ClusterDescription& description);
/// `source` is the sender, for messages. Throws Error (user).
ClusterDescription cluster_description_from_json(const std::string& text, const std::string& source);

/// The description for parameter server `server`: only what its update depends on. A server that is still
/// running refuses a resumed run whose description differs, but the run may change its epochs, output, data
/// paths, devices and threads.
std::string server_description(const Job& job, const SampleSpec& spec, int server);

/// Creates a parameter server's update from its ClusterDescription: the server's update graph, compiled for
/// one thread.
StoreUpdateFactory job_store_updates();

}  // namespace telar
