#pragma once

#include <string>

#include "telar/data/dataset.h"
#include "telar/train/data_decision.h"
#include "telar/train/job.h"

namespace telar {

/// What the coordinator sends to the workers of a run, as JSON: the job with all defaults, the description of
/// a sample, the decision on the data, and where a stream begins. Every worker builds one program from it.
struct ClusterDescription {
  Job job;
  SampleSpec spec;
  DataDecision data;
  Position reached = {};  ///< of a stream: where the training begins (Stream::recognise)
};

std::string to_json(const ClusterDescription& description);
/// `source` is the sender, for messages. Throws Error (user).
ClusterDescription cluster_description_from_json(const std::string& text, const std::string& source);

}  // namespace telar
