#pragma once

#include "telar/comm/peers/peers.pb.h"

namespace telar {

/// Throws Error (run) unless a process that has joined can be one of these members.
void require_introduced(const peers::Introduction& introduction);

}  // namespace telar
