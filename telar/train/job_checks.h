#pragma once

#include <functional>
#include <string>

#include "telar/train/job.h"

namespace telar {

/// Defaults that depend on other keys: learning rate, where Fashion-MNIST lies.
void fill_in_defaults(Job& job);

/// What no key can check alone. `where` gives the place of a key for messages. Throws Error (user).
void check_job(const Job& job, const std::function<std::string(const std::string& key)>& where);

}  // namespace telar
