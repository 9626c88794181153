#pragma once

#include <string>

#include "telar/runtime/phases.h"

namespace telar::cli {

/// A table of what training steps went into, and each phase's share of the step.
std::string phase_text(const PhaseSummary& summary);

}  // namespace telar::cli
