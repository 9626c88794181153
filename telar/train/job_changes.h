#pragma once

#include <string>
#include <vector>

#include "telar/train/job.h"
#include "telar/train/job_keys.h"

namespace telar {

/// A key whose value differs between a run and the job with which it is to be resumed.
struct JobChange {
  std::string key;  ///< "training.batch", or "model"
  std::string before;
  std::string now;
  OnResume rule = OnResume::recorded;
  std::string because;  ///< if the rule is `refused`

  /// "training.batch: 32 → 64".
  std::string str() const;
};

/// All differences, in the order of the keys. A key that is not valid in `now` is left out.
std::vector<JobChange> job_changes(const Job& before, const Job& now);

/// The changes with this rule.
std::vector<JobChange> changes_of(const std::vector<JobChange>& changes, OnResume rule);

}  // namespace telar
