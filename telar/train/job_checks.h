#pragma once

#include <functional>
#include <string>

#include "telar/strategy/placement.h"
#include "telar/train/job.h"

namespace telar {

/// Defaults that depend on other keys: learning rate, where Fashion-MNIST lies.
void fill_in_defaults(Job& job);

/// Whether the job's strategy needs parameter servers.
bool uses_servers(const Job& job);

/// Of strategy.place: "PATTERN=SERVER". Throws Error (user), `where` being the place of the key.
std::vector<PlacementRule> placement_rules(const std::vector<std::string>& place, int servers,
                                           const std::string& where);

/// What no key can check alone. `where` gives the place of a key for messages. Throws Error (user).
void check_job(const Job& job, const std::function<std::string(const std::string& key)>& where);

}  // namespace telar
