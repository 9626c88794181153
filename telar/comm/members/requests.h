#pragma once

#include "telar/comm/members/member_registry.h"
#include "telar/comm/members/members.pb.h"

namespace telar {

/// Executes a member's request about its work, received at `heard`. Returns false for requests about the
/// connection (hello, alive, failure, leave). Throws Error (user) for impossible figures and for an empty
/// request.
bool carry_out(MemberRegistry& registry, uint32_t member, MemberRegistry::Time heard,
               const members::Request& request);

}  // namespace telar
