#pragma once

#include "telar/comm/processes.h"
#include "telar/data/dataset.h"
#include "telar/nn/model.h"
#include "telar/train/job.h"

namespace telar {

/// The model of a job whose model is a file. Throws Error (user), naming the file: it cannot be read, is not
/// the file of the job's checksum, takes other samples than these, has inputs that samples of a job do not
/// have, or does not know all of their classes.
Model model_of_file(const ModelJob& job, const SampleSpec& spec);

/// The job with the checksum of its model file, if its model is one. With `processes`, all of them call it;
/// it throws Error (user) in all of them if one cannot read the file, or has another file than rank 0.
Job with_settled_model(Job job, Processes* processes);

}  // namespace telar
