#pragma once

#include "telar/weave/request.h"

namespace telar::weave {

/// Reads a sequential training script and writes the parallel one. What is not understood comes back as a refusal with
/// its line; a mistake such as a syntax error is an Error (user).
Reply weave(const Request& request);

}  // namespace telar::weave
