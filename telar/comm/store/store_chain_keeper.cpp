#include "telar/comm/store/store_chain_keeper.h"

#include <algorithm>

namespace telar {

void ChainKeeper::found(StoreServerId server) {
  present_.insert(server);
  given_up_.erase(server);
  change({server}, 0);
  settle();
}

void ChainKeeper::arrived(StoreServerId server) {
  present_.insert(server);
  given_up_.erase(server);
  if (std::ranges::find(chain_.servers, server) != chain_.servers.end())
    actions_.emplace_back(Configure{.to = server, .chain = chain_});
  settle();
}

void ChainKeeper::given_up(StoreServerId server) {
  present_.erase(server);
  given_up_.insert(server);
  settle();
}

void ChainKeeper::reported(StoreServerId server, const ChainedBlock::Report& report) {
  if (!report.whole || report.generation != chain_.generation || !joins(server)) return;
  chain_.joins_since = 0;
  actions_.emplace_back(Record{chain_});
  settle();
}

/// Leaves out those who were given up, if somebody else has a whole copy, and fills one server at a time.
void ChainKeeper::settle() {
  if (chain_.servers.empty()) return;
  std::vector<StoreServerId> kept = chain_.servers;
  std::erase_if(kept, [this](StoreServerId server) { return given_up_.contains(server); });
  const bool whole = !kept.empty() && !joins(kept.front());
  const bool still_joins = whole && joins(kept.back());
  if (whole && kept.size() < chain_.servers.size()) change(kept, still_joins ? chain_.joins_since : 0);
  if (chain_.joins_since > 0 || chain_.servers.size() >= copies_) return;
  for (const StoreServerId server : present_) {
    if (std::ranges::find(chain_.servers, server) != chain_.servers.end()) continue;
    std::vector<StoreServerId> longer = chain_.servers;
    longer.push_back(server);
    change(std::move(longer), chain_.generation + 1);
    return;
  }
}

void ChainKeeper::change(std::vector<StoreServerId> servers, int64_t joins_since) {
  chain_ = {.generation = chain_.generation + 1, .servers = std::move(servers), .joins_since = joins_since};
  actions_.emplace_back(Record{chain_});
  for (const StoreServerId server : chain_.servers)
    actions_.emplace_back(Configure{.to = server, .chain = chain_});
}

}  // namespace telar
