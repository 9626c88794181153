#pragma once

#include <functional>
#include <string>

#include "telar/strategy/placement.h"
#include "telar/train/job.h"

namespace telar {

/// Fills in defaults that depend on other keys: the learning rate, the path of Fashion-MNIST.
void fill_in_defaults(Job& job);

/// True if the job's strategy needs parameter servers.
bool uses_servers(const Job& job);

/// Parses strategy.place: "PATTERN=SERVER". `where` is the position of the key. Throws Error (user).
std::vector<PlacementRule> placement_rules(const std::vector<std::string>& place, int servers,
                                           const std::string& where);

/// Checks what involves several keys. `where` returns the position of a key, for messages. Throws Error
/// (user).
void check_job(const Job& job, const std::function<std::string(const std::string& key)>& where);

}  // namespace telar
