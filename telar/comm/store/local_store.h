#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

#include "telar/comm/store/store.h"
#include "telar/comm/store/store_update.h"

namespace telar {

class HeldStore;

/// A parameter server whose members are threads of its own process: without network, token and snapshots. It
/// sums, applies and refuses exactly as a StoreServer does.
class LocalStoreServer {
 public:
  explicit LocalStoreServer(StoreUpdateFactory make_update);
  /// Ends the waits of its stores, which may outlive it.
  ~LocalStoreServer();
  LocalStoreServer(const LocalStoreServer&) = delete;
  LocalStoreServer& operator=(const LocalStoreServer&) = delete;

  /// The access of a member (0: the coordinator), to be used by one thread. A thread of its own works for the
  /// server. `stop` ends all waits with an Error (run).
  std::unique_ptr<Store> connect(uint32_t member, std::stop_token stop = {});

 private:
  std::shared_ptr<HeldStore> held_;
};

}  // namespace telar
