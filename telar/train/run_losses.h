#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telar/comm/members/coordinator.h"
#include "telar/comm/store/store_ledger.h"

namespace telar {

/// What killed processes have cost a run with parameter servers.
struct RunLosses {
  std::vector<StoreLosses> servers;  ///< in placement order
  MemberLosses workers;
  int64_t updates = 0;  ///< that each server has made, the lost ones included
  bool operator==(const RunLosses&) const = default;

  RunLosses with(const RunLosses& more) const;
};

/// One line for each server that was restarted and one for lost workers; empty if there were none.
std::string losses_text(const RunLosses& losses);

/// A warning about servers that have lost more than a tenth of their updates, or an unknown number; empty if
/// there are none.
std::string losses_warning(const RunLosses& losses);

}  // namespace telar
