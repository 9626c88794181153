#include "telar/bench/machine_watch.h"

namespace telar::bench {

void MachineWatch::finish(Result& result) const {
  result.others = others_.processors();
  result.energy_source = energy_.source();
  if (!energy_.missing().empty())
    result.remarks.push_back("Energy was not measured: " + energy_.missing() + ".");
  result.environment = read_environment();
}

}  // namespace telar::bench
