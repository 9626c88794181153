#include "telar/train/newer_parameters.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/train/checkpoint.h"

namespace telar {

namespace {

constexpr std::chrono::seconds kLookEvery(1);

}  // namespace

NewerParameters::NewerParameters(Trained& trained, const std::filesystem::path& run_or_checkpoint,
                                 std::function<void(const std::string&)> warn)
    : trained_(trained), warn_(std::move(warn)) {
  if (!std::filesystem::exists(run_or_checkpoint / "state.json"))
    checkpoints_ = trained.checkpoint.parent_path();
}

bool NewerParameters::look() {
  const auto now = std::chrono::steady_clock::now();
  if (checkpoints_.empty() || now - looked_ < kLookEvery) return false;
  looked_ = now;
  const std::vector<std::filesystem::path> newest_first = list_checkpoints(checkpoints_);
  for (const std::filesystem::path& checkpoint : newest_first) {
    if (checkpoint == trained_.checkpoint) return false;
    if (!unusable_.contains(checkpoint) && load(checkpoint)) return true;
  }
  return false;
}

bool NewerParameters::load(const std::filesystem::path& checkpoint) {
  try {
    const TrainingState state = verify_checkpoint(checkpoint);
    load_parameters(checkpoint, *trained_.session);
    trained_.step = state.step;
  } catch (const Error& error) {
    // The run removes old ones, perhaps while this one was read.
    const bool exists = std::filesystem::exists(checkpoint);
    if (exists) unusable_.insert(checkpoint);
    if (exists && warn_)
      warn_(fmt::format("{}; the parameters stay those of step {}", error.what(), trained_.step));
    return false;
  }
  trained_.checkpoint = checkpoint;
  return true;
}

}  // namespace telar
