#pragma once

#include "telar/comm/members/member_registry.h"
#include "telar/comm/members/members.pb.h"

namespace telar {

/// Carries out a member's request about its work, received at `heard`. False: it is of the connection (hello, alive, failure, leave).
/// Throws Error (user) for figures that cannot be, and for an empty request.
bool carry_out(MemberRegistry& registry, uint32_t member, MemberRegistry::Time heard,
               const members::Request& request);

}  // namespace telar
