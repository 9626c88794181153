#pragma once

#include "telar/bench/result.h"
#include "telar/observe/activity.h"
#include "telar/observe/energy.h"

namespace telar::bench {

/// Watches the machine from the moment it is made: what a result says about the machine beside its rows.
class MachineWatch {
 public:
  EnergyMeter& energy() { return energy_; }
  /// Tells `result` how busy others were, where its energy was read (or why not, as a remark), and the environment.
  void finish(Result& result) const;

 private:
  OthersActivity others_;
  EnergyMeter energy_;
};

}  // namespace telar::bench
