#pragma once

#include "telar/comm/members/member_registry.h"
#include "telar/comm/members/members.pb.h"

namespace telar {

/// The message with which the coordinator gives a member this answer.
members::Reply reply_of(const MemberRegistry::AnswerValue& value);

}  // namespace telar
