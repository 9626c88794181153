#pragma once

#include "telar/bench/result.h"
#include "telar/observe/activity.h"
#include "telar/observe/energy.h"

namespace telar::bench {

/// Observes the machine from its construction on, for the parts of a result that describe the machine.
class MachineWatch {
 public:
  EnergyMeter& energy() { return energy_; }
  /// Adds to `result` the load by other processes, the source of energy readings (or a remark why there is
  /// none), and the environment.
  void finish(Result& result) const;

 private:
  OthersActivity others_;
  EnergyMeter energy_;
};

}  // namespace telar::bench
