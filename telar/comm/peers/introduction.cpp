#include "telar/comm/peers/introduction.h"

#include <utility>

#include "telar/comm/network.h"
#include "telar/core/error.h"

namespace telar {

namespace {

constexpr int kMostProcesses = 1 << 16;
constexpr int kShortestGroup = 32;  // characters: a secret

}  // namespace

void require_introduced(const peers::Introduction& introduction) {
  const int size = introduction.members_size();
  const auto refuse = [](const std::string& why) {
    throw run_error("the first process of the group, which this one has joined, sent {}", why);
  };
  if (size < 2 || size > kMostProcesses) refuse(fmt::format("a group of {} processes", size));
  const uint32_t leader = introduction.leader();
  if (leader >= static_cast<uint32_t>(size) || (leader > 0 && !introduction.takes_place()))
    refuse(fmt::format("itself as rank {} of {} processes", leader, size));
  if (introduction.rank() == leader || introduction.rank() >= static_cast<uint32_t>(size))
    refuse(fmt::format("the rank {} of {} processes", introduction.rank(), size));
  if (introduction.group().size() < kShortestGroup) refuse("no secret of the group");
  for (int rank = 0; rank < size; ++rank) {
    if (std::cmp_equal(rank, leader)) continue;  // its address is where this process has found it
    if (introduction.takes_place() && introduction.members(rank).address().empty()) continue;
    try {
      Address::parse(introduction.members(rank).address());
    } catch (const Error& error) {
      refuse(fmt::format("a wrong address of rank {}: {}", rank, error.what()));
    }
  }
}

}  // namespace telar
