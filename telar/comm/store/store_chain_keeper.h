#pragma once

#include <algorithm>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "telar/comm/store/store_chain.h"

namespace telar {

/// The coordinator's decisions about one chain, without network, threads or clock: each call adds actions,
/// which the caller performs in their order. Not thread-safe.
///
/// The record is the chain itself. It is stored before a server hears of it, so a coordinator that continues
/// from the last record knows every generation that a server can know, and who has a whole copy. No
/// generation is without a server that has one: if the only one is given up, it is waited for. A server whose
/// place another one is to take is left out when the other one is filled.
class ChainKeeper {
 public:
  struct Record {  ///< to be stored durably before the next action
    StoreChain chain;
  };
  struct Configure {
    StoreServerId to = 0;
    StoreChain chain;
  };
  using Action = std::variant<Record, Configure>;

  /// `recorded`: the last record, or none.
  explicit ChainKeeper(StoreChain recorded = {}) : chain_(std::move(recorded)) {}

  /// This server alone has the block: at the start, or from a snapshot when all copies are lost.
  void found(StoreServerId server);
  /// These servers are to have the copies, the first one as the head. Nobody is left out for it while one of
  /// them is given up.
  void place(std::vector<StoreServerId> servers);
  /// The server has connected, also again.
  void arrived(StoreServerId server);
  /// The server is silent or gone. It may come back.
  void given_up(StoreServerId server);
  void reported(StoreServerId server, const ChainedBlock::Report& report);

  std::vector<Action> take_actions() { return std::exchange(actions_, {}); }
  const StoreChain& chain() const { return chain_; }

 private:
  bool holds(StoreServerId server) const {
    return std::ranges::find(chain_.servers, server) != chain_.servers.end();
  }
  bool joins(StoreServerId server) const { return chain_.joins_since > 0 && chain_.servers.back() == server; }
  void settle();
  void change(std::vector<StoreServerId> servers, int64_t joins_since);

  StoreChain chain_;
  std::vector<StoreServerId> placed_;  ///< of the last place()
  std::set<StoreServerId> given_up_;
  std::vector<Action> actions_;
};

}  // namespace telar
