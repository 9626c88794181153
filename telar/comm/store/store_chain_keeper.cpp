#include "telar/comm/store/store_chain_keeper.h"

#include <algorithm>

namespace telar {

void ChainKeeper::found(StoreServerId server) {
  given_up_.erase(server);
  change({server}, 0);
  settle();
}

void ChainKeeper::place(std::vector<StoreServerId> servers) {
  placed_ = std::move(servers);
  settle();
}

void ChainKeeper::arrived(StoreServerId server) {
  given_up_.erase(server);
  if (holds(server)) actions_.emplace_back(Configure{.to = server, .chain = chain_});
  settle();
}

void ChainKeeper::given_up(StoreServerId server) {
  given_up_.insert(server);
  settle();
}

void ChainKeeper::reported(StoreServerId server, const ChainedBlock::Report& report) {
  if (!report.whole || report.generation != chain_.generation || !joins(server)) return;
  chain_.joins_since = 0;
  actions_.emplace_back(Record{chain_});
  settle();
}

/// Leaves out those who were given up, if somebody else has a whole copy, fills one server at a time, and
/// then leaves out those who have no place.
void ChainKeeper::settle() {
  if (chain_.servers.empty()) return;
  std::vector<StoreServerId> kept = chain_.servers;
  std::erase_if(kept, [this](StoreServerId server) { return given_up_.contains(server); });
  const bool whole = !kept.empty() && !joins(kept.front());
  const bool still_joins = whole && joins(kept.back());
  if (whole && kept.size() < chain_.servers.size()) change(kept, still_joins ? chain_.joins_since : 0);
  if (chain_.joins_since > 0 || placed_.empty() || placed_ == chain_.servers) return;
  bool missing = false;
  for (const StoreServerId server : placed_) {
    if (holds(server)) continue;
    missing = true;
    if (given_up_.contains(server)) continue;
    std::vector<StoreServerId> longer = chain_.servers;
    longer.push_back(server);
    return change(std::move(longer), chain_.generation + 1);
  }
  if (!missing) change(placed_, 0);
}

void ChainKeeper::change(std::vector<StoreServerId> servers, int64_t joins_since) {
  const auto place = [this](StoreServerId server) { return std::ranges::find(chain_.servers, server); };
  const bool ordered = std::ranges::is_sorted(servers, {}, place);
  const int64_t generation = chain_.generation + 1;
  chain_ = {.generation = generation,
            .servers = std::move(servers),
            .joins_since = joins_since,
            .ordered_since = ordered ? chain_.ordered_since : generation};
  actions_.emplace_back(Record{chain_});
  for (const StoreServerId server : chain_.servers)
    actions_.emplace_back(Configure{.to = server, .chain = chain_});
}

}  // namespace telar
