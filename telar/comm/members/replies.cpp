#include "telar/comm/members/replies.h"

#include <algorithm>
#include <utility>

#include "telar/comm/network.h"
#include "telar/comm/printable.h"
#include "telar/comm/store/store_frame.h"
#include "telar/core/error.h"

namespace telar {
namespace {

template <typename Addresses>
void check_addresses(const Addresses& servers) {
  for (const std::string& server : servers) {
    try {
      Address::parse(server);
    } catch (const Error& error) {
      throw user_error("a parameter server's address that cannot be used: {}", printable(error.what(), 1000));
    }
  }
}

/// Of a welcome or a message about heads.
template <typename Message>
std::vector<StoreHead> heads_of(const Message& message) {
  check_addresses(message.servers());
  if (message.generations_size() != message.servers_size() ||
      message.copies_size() != message.servers_size() ||
      !std::ranges::all_of(message.generations(), [](int64_t generation) { return generation > 0; }))
    throw user_error("{} parameter servers with {} generations and {} copies, which is not possible",
                     message.servers_size(), message.generations_size(), message.copies_size());
  std::vector<std::string> copies(message.copies().begin(), message.copies().end());
  std::erase(copies, "");
  check_addresses(copies);
  std::vector<StoreHead> heads;
  for (int s = 0; s < message.servers_size(); ++s)
    heads.push_back(
        {.address = message.servers(s), .generation = message.generations(s), .copy = message.copies(s)});
  return heads;
}

Replies::Welcome welcome_of(const members::Welcome& message) {
  if (message.id() == 0) throw user_error("a welcome without a number for this member");
  check_addresses(message.servers());
  std::vector<uint64_t> tenures(message.tenures().begin(), message.tenures().end());
  if (tenures.empty()) tenures.resize(static_cast<size_t>(message.servers_size()));
  if (std::ssize(tenures) != message.servers_size())
    throw user_error("a welcome with {} parameter servers and {} tenures", message.servers_size(),
                     tenures.size());
  return {.id = message.id(),
          .job = message.job(),
          .description = message.description(),
          .servers = {message.servers().begin(), message.servers().end()},
          .tenures = std::move(tenures),
          .heads = message.generations().empty() ? std::vector<StoreHead>() : heads_of(message)};
}

/// The piece of work of each batch; those of a lease may be as many as an epoch has.
std::vector<int64_t> works_of(const members::Lease& message) {
  constexpr int64_t kMost = int64_t{1} << 24;
  const int64_t batches = message.end() - message.begin();
  std::vector<int64_t> works;
  if (batches <= kMost && message.works_size() == message.work_steps_size()) {
    for (int i = 0; i < message.works_size(); ++i) {
      const int64_t steps = message.work_steps(i);
      if (steps < 1 || steps > batches - std::ssize(works)) break;
      works.insert(works.end(), static_cast<size_t>(steps), message.works(i));
    }
  }
  if (std::ssize(works) != batches)
    throw user_error("a lease of {} batches in {} pieces of work with {} batches, which is not possible",
                     batches, message.works_size(), works.size());
  return works;
}

std::optional<Lease> lease_of(const members::Lease& message) {
  if (message.id() == 0) return std::nullopt;
  if (message.begin() < 0 || message.begin() >= message.end() || message.part() < 0)
    throw user_error("a lease of part {} of batches {} to {}, which is not possible", message.part(),
                     message.begin(), message.end());
  return Lease{.id = message.id(),
               .epoch = message.epoch(),
               .begin = message.begin(),
               .end = message.end(),
               .part = message.part(),
               .works = works_of(message),
               .places = {message.places().begin(), message.places().end()},
               .applied = message.applied()};
}

StoreRound round_of(const members::Round& message, uint32_t own) {
  if (message.number() == 0) return {};
  StoreRound round{.number = message.number(),
                   .members = {message.members().begin(), message.members().end()}};
  std::vector<uint32_t> sorted = round.members;
  std::ranges::sort(sorted);
  if (round.number < 0 || round.members.size() > kMostRoundMembers ||
      std::ranges::adjacent_find(sorted) != sorted.end() || !std::ranges::binary_search(sorted, own))
    throw user_error("round {} of {} members, which is not possible for member {}", round.number,
                     round.members.size(), own);
  return round;
}

}  // namespace

void Replies::take(const members::Reply& reply) {
  switch (reply.what_case()) {
    case members::Reply::kWelcome:
      if (!welcome) heads = welcome.emplace(welcome_of(reply.welcome())).heads;
      return;
    case members::Reply::kHeads: {
      std::vector<StoreHead> moved = heads_of(reply.heads());
      if (moved.size() != heads.size())
        throw user_error("{} parameter servers in the place of {} with copies", moved.size(), heads.size());
      heads = std::move(moved);
      return;
    }
    case members::Reply::kWorkThere: work_there = true; return;
    case members::Reply::kGoOn: go_on = true; return;
    case members::Reply::kLease: lease = lease_of(reply.lease()); return;
    case members::Reply::kRound: round = round_of(reply.round(), welcome ? welcome->id : 0); return;
    case members::Reply::kOver: over = true; return;
    case members::Reply::kAlive: return;
    case members::Reply::WHAT_NOT_SET: break;
  }
  throw user_error("a message that this release of telar does not know");
}

}  // namespace telar
