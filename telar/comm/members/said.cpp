#include "telar/comm/members/said.h"

#include "telar/core/error.h"

namespace telar {

namespace {

PartDone part_of(const members::Done& done) {
  return {.lease = done.lease(),
          .step = done.step(),
          .samples = done.samples(),
          .metrics = {done.metrics().begin(), done.metrics().end()},
          .staleness = done.staleness(),
          .seconds = done.seconds()};
}

}  // namespace

bool carry_out(Roll& roll, uint32_t member, Roll::Time heard, const members::Said& said) {
  switch (said.what_case()) {
    case members::Said::kAskWork: roll.ask_work(member, heard); return true;
    case members::Said::kAskLease: roll.ask_lease(member); return true;
    case members::Said::kAskRound: roll.ask_round(member); return true;
    case members::Said::kAskPace: roll.ask_pace(member); return true;
    case members::Said::kDone: roll.done(member, part_of(said.done())); return true;
    case members::Said::kGivenBack:
      roll.give_back(member, said.given_back().lease(), said.given_back().step());
      return true;
    case members::Said::kHello:
    case members::Said::kAlive:
    case members::Said::kFailure:
    case members::Said::kLeave: return false;
    case members::Said::WHAT_NOT_SET: break;
  }
  throw user_error("it said what makes no sense here");
}

}  // namespace telar
