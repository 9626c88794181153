#include "telar/comm/members/answers.h"

#include <algorithm>

namespace telar {

namespace {

void add_works(members::Lease& message, const std::vector<int64_t>& works) {
  for (auto begin = works.begin(); begin != works.end();) {
    const auto end = std::find_if(begin, works.end(), [&](int64_t work) { return work != *begin; });
    message.add_works(*begin);
    message.add_work_steps(end - begin);
    begin = end;
  }
}

}  // namespace

members::Reply reply_of(const MemberRegistry::AnswerValue& value) {
  members::Reply reply;
  if (std::holds_alternative<MemberRegistry::WorkThere>(value)) {
    reply.mutable_work_there();
  } else if (std::holds_alternative<MemberRegistry::MayGoOn>(value)) {
    reply.mutable_go_on();
  } else if (std::holds_alternative<MemberRegistry::Leave>(value)) {
    reply.mutable_over();
  } else if (const auto* lease = std::get_if<std::optional<Lease>>(&value)) {
    members::Lease& message = *reply.mutable_lease();
    if (!*lease) return reply;
    message.set_id((*lease)->id);
    message.set_epoch((*lease)->epoch);
    message.set_begin((*lease)->begin);
    message.set_end((*lease)->end);
    message.set_part((*lease)->part);
    add_works(message, (*lease)->works);
    for (const std::string& place : (*lease)->places) message.add_places(place);
    message.set_applied((*lease)->applied);
  } else if (const auto* round = std::get_if<StoreRound>(&value)) {
    members::Round& message = *reply.mutable_round();
    message.set_number(round->number);
    message.mutable_members()->Assign(round->members.begin(), round->members.end());
  }
  return reply;
}

}  // namespace telar
