#pragma once

#include <string>

#include "telar/comm/processes.h"
#include "telar/runtime/session.h"
#include "telar/train/job.h"
#include "telar/train/run.h"
#include "telar/train/run_profile.h"
#include "telar/train/trainer.h"

namespace telar {

/// Why a training ended, as the end of a sentence.
std::string why_ended(const TrainingJob& training, FitOutcome outcome, const TrainingState& state);

/// What has trained, when it has ended.
struct RunFigures {
  const Job& job;
  const Session& session;
  const Trainer& trainer;
  const RunProfile* profile;  ///< null: not requested
  Processes* processes;       ///< null: this one alone
};

/// Sets what the steps, the session and the state of the training tell. Waits for all processes.
void add_figures(RunSummary& summary, const RunFigures& of);

}  // namespace telar
