#pragma once

#include <string>
#include <vector>

#include "telar/train/job.h"

namespace telar {

/// The addresses of the servers that others have started, one for each; a DNS name that has several addresses
/// stands for as many servers. Throws Error (user) if they are not as many as server_processes().
std::vector<std::string> given_addresses(std::vector<std::string> addresses, const StrategyJob& strategy);

}  // namespace telar
