#pragma once

#include "telar/comm/members/members.pb.h"
#include "telar/comm/members/roll.h"

namespace telar {

/// Carries out what a member says of its work, at `heard`. False: it is of the connection (hello, alive, failure, leave). Throws Error
/// (user) for figures that cannot be, and for nothing said.
bool carry_out(Roll& roll, uint32_t member, Roll::Time heard, const members::Said& said);

}  // namespace telar
