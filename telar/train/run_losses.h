#pragma once

#include <string>
#include <vector>

#include "telar/comm/members/coordinator.h"
#include "telar/comm/store/store_ledger.h"

namespace telar {

/// What killed processes have cost a run with parameter servers.
struct RunLosses {
  std::vector<StoreLosses> servers;  ///< in placement order
  MemberLosses workers;
};

/// One line for each server that was restarted and one for lost workers; empty if there were none.
std::string losses_text(const RunLosses& losses);

}  // namespace telar
