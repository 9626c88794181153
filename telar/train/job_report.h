#pragma once

#include <functional>
#include <string>

#include "telar/comm/processes.h"
#include "telar/train/job.h"

namespace telar {

/// What a source says about the files of a job, in lines: those that it ignores. `processes`: as below.
std::string data_remarks(const DataJob& data, Processes* processes);

/// What `telar train --check` prints about a job that can run: its samples, the files that it ignores, and
/// its memory. Opens the data and reads the headers of images; with `data.on_error: skip` whole images, and
/// `warn` receives those that are damaged. `say` receives the progress of reading that takes longer than a
/// second; it may be empty. Throws Error (user) if the job cannot run. If a published data set is not on this
/// machine, the report says so; if a device is not, `warn` receives that.
///
/// `processes`: those that check the job together, because each has a part of the samples (data.spread);
/// null: this one alone.
std::string job_report(Job job, const std::function<void(const std::string&)>& warn,
                       const std::function<void(const std::string&)>& say = {},
                       Processes* processes = nullptr);

}  // namespace telar
