#include "telar/comm/store/store_placement.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

namespace telar {
namespace {

/// Servers are numbered by their place in `servers`; those that may have no copies are left out.
class Placement {
 public:
  Placement(const std::vector<StoreChain>& chains, const std::vector<StoreServerId>& servers)
      : servers_(servers), copies_(servers.size()), heads_(servers.size()) {
    for (const StoreChain& chain : chains) {
      std::vector<size_t>& shard = shards_.emplace_back();
      for (const StoreServerId id : chain.servers)
        if (const auto at = std::ranges::find(servers, id); at != servers.end())
          shard.push_back(static_cast<size_t>(at - servers.begin()));
      for (const size_t server : shard) ++copies_[server];
      if (!shard.empty()) ++heads_[shard.front()];
    }
  }

  const std::vector<std::vector<size_t>>& shards() const { return shards_; }

  void fill(size_t shard) {
    const size_t first = shards_[shard].empty() ? shard : shards_[shard].front();
    std::optional<size_t> best;
    for (size_t i = 0; i < servers_.size(); ++i) {
      const size_t server = (first + i) % servers_.size();
      if (!has(shard, server) && (!best || copies_[server] < copies_[*best])) best = server;
    }
    shards_[shard].push_back(*best);
    ++copies_[*best];
  }

  /// Without the copy of the server that has the most, if possible not the head's.
  void drop(size_t shard) {
    const auto fuller = [this](size_t one, size_t other) { return copies_[one] < copies_[other]; };
    std::erase(shards_[shard], *std::max_element(shards_[shard].rbegin(), shards_[shard].rend(), fuller));
  }

  std::optional<size_t> even_copies() {
    const auto from = static_cast<size_t>(std::ranges::max_element(copies_) - copies_.begin());
    const auto to = static_cast<size_t>(std::ranges::min_element(copies_) - copies_.begin());
    if (copies_[from] < copies_[to] + 2) return std::nullopt;
    std::optional<size_t> best;
    for (size_t s = 0; s < shards_.size(); ++s)
      if (has(s, from) && !has(s, to) && (!best || shards_[*best].front() == from)) best = s;
    std::erase(shards_[*best], from);
    shards_[*best].push_back(to);
    return best;
  }

  /// The head of a shard can move to any of its servers. On the shortest way of such moves from a server with
  /// too many heads to one with too few, the last move is made.
  std::optional<size_t> even_heads() {
    if (std::ranges::max(heads_) < std::ranges::min(heads_) + 2) return std::nullopt;
    for (size_t from = 0; from < servers_.size(); ++from) {
      std::vector<bool> reached(servers_.size());
      reached[from] = true;
      for (std::deque<size_t> next{from}; !next.empty(); next.pop_front())
        for (size_t s = 0; s < shards_.size(); ++s) {
          if (shards_[s].empty() || shards_[s].front() != next.front()) continue;
          for (const size_t server : shards_[s]) {
            if (heads_[server] + 2 <= heads_[from]) return lead(s, server);
            if (!reached[server]) next.push_back(server);
            reached[server] = true;
          }
        }
    }
    return std::nullopt;
  }

  ShardPlacement of(size_t shard) const {
    ShardPlacement placement{.shard = shard, .servers = {}};
    for (const size_t server : shards_[shard]) placement.servers.push_back(servers_[server]);
    return placement;
  }

 private:
  bool has(size_t shard, size_t server) const {
    return std::ranges::find(shards_[shard], server) != shards_[shard].end();
  }
  size_t lead(size_t shard, size_t server) {
    std::erase(shards_[shard], server);
    shards_[shard].insert(shards_[shard].begin(), server);
    return shard;
  }

  const std::vector<StoreServerId>& servers_;
  std::vector<std::vector<size_t>> shards_;  ///< the servers of each
  std::vector<size_t> copies_;               ///< of each server
  std::vector<size_t> heads_;
};

}  // namespace

std::vector<ShardPlacement> next_placements(const std::vector<StoreChain>& chains,
                                            const std::vector<StoreServerId>& servers, size_t copies) {
  const size_t most = std::min(copies, servers.size());
  Placement placement(chains, servers);
  std::vector<ShardPlacement> next;
  bool filling = false;
  for (size_t s = 0; s < chains.size(); ++s) {
    filling |= chains[s].joins_since > 0;
    if (placement.shards()[s].size() >= most) continue;
    while (placement.shards()[s].size() < most) placement.fill(s);
    next.push_back(placement.of(s));
  }
  if (!next.empty() || filling || servers.empty()) return next;
  for (size_t s = 0; s < chains.size(); ++s) {
    if (placement.shards()[s].size() <= most) continue;
    placement.drop(s);
    return {placement.of(s)};
  }
  std::optional<size_t> moved = placement.even_copies();
  if (!moved) moved = placement.even_heads();
  if (moved) next.push_back(placement.of(*moved));
  return next;
}

}  // namespace telar
