#pragma once

#include "telar/weave/request.h"

namespace telar::weave {

/// Reads a sequential training script and writes the parallel version. A construct that weave does not
/// understand results in a refusal with its line. Throws Error (user) for invalid input, such as a syntax
/// error.
Reply weave(const Request& request);

}  // namespace telar::weave
