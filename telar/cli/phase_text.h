#pragma once

#include <string>

#include "telar/runtime/phases.h"

namespace telar::cli {

/// A table of the phases of training steps, with each phase's time and its share of the step.
std::string phase_text(const PhaseSummary& summary);

}  // namespace telar::cli
