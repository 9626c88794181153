#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "telar/train/trained.h"

namespace telar {

/// Follows a run that is still trained: loads the parameters of newer checkpoints as they appear.
class NewerParameters {
 public:
  /// `trained`: of the run's folder, or of one checkpoint, which stays as it is. It must outlive this object.
  /// `warn`: of a checkpoint that cannot be used, once; may be empty.
  NewerParameters(Trained& trained, const std::filesystem::path& run_or_checkpoint,
                  std::function<void(const std::string&)> warn);

  /// Looks at most once a second. Returns whether the session has other parameters now. A checkpoint appears
  /// as a whole, and every byte is verified before the session is changed.
  bool look();

 private:
  bool load(const std::filesystem::path& checkpoint);

  Trained& trained_;
  std::filesystem::path checkpoints_;  ///< empty: there are no others
  std::function<void(const std::string&)> warn_;
  std::set<std::filesystem::path> unusable_;
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
};

}  // namespace telar
