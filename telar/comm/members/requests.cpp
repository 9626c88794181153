#include "telar/comm/members/requests.h"

#include <vector>

#include "telar/core/error.h"

namespace telar {

namespace {

PartDone part_of(const members::Done& done) {
  const std::vector<uint64_t> latency(done.latency().begin(), done.latency().end());
  return {.lease = done.lease(),
          .step = done.step(),
          .samples = done.samples(),
          .metrics = {done.metrics().begin(), done.metrics().end()},
          .staleness = done.staleness(),
          .seconds = done.seconds(),
          .latency = LatencyCounts(latency)};
}

}  // namespace

bool carry_out(MemberRegistry& registry, uint32_t member, MemberRegistry::Time heard,
               const members::Request& request) {
  switch (request.what_case()) {
    case members::Request::kAskWork: registry.ask_work(member, heard); return true;
    case members::Request::kAskLease: registry.ask_lease(member); return true;
    case members::Request::kAskRound:
      registry.ask_round(member, request.ask_round().work(),
                         {request.ask_round().leases().begin(), request.ask_round().leases().end()});
      return true;
    case members::Request::kAskPace: registry.ask_pace(member, request.ask_pace().work()); return true;
    case members::Request::kDone: registry.done(member, part_of(request.done())); return true;
    case members::Request::kGivenBack:
      registry.give_back(member, request.given_back().lease(), request.given_back().step());
      return true;
    case members::Request::kHello:
    case members::Request::kAlive:
    case members::Request::kFailure:
    case members::Request::kLeave: return false;
    case members::Request::WHAT_NOT_SET: break;
  }
  throw user_error("its message makes no sense here");
}

}  // namespace telar
