#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "telar/comm/network.h"
#include "telar/comm/store/store_update.h"

namespace telar {

struct StoreServerOptions {
  std::string listen = "127.0.0.1:0";  ///< port 0: any that is free
  Security security;
  std::string
      snapshots;  ///< folder in which the state is saved and from which it is taken up again; empty: none
  double snapshot_seconds = 10;  ///< between two snapshots; what a crash can lose
  double round_seconds =
      5;  ///< a member that sends nothing for so long while others of its round wait is given up
  double keepalive_seconds = 10;  ///< a member whose host is silent for twice so long has left
  bool shared_memory = true;      ///< offered to workers of this host
  StoreUpdateFactory make_update;
  std::function<void(const std::string&)> say;  ///< told what happens, from any thread; may be empty
};

/// A parameter server: holds pieces of one job's variables and their optimizer state, and serves workers on threads of its own. The
/// first StoreClient::create decides for which job; others are refused. Started again on the same folder of snapshots it goes on
/// from the last one.
///
/// Its memory: parameters, optimizer state, at most kOpenBytes for sums that are not complete, and for each member 1 MB each of a
/// push that was received, of an answer, and to gather floats in; beside it gRPC receives up to 4 MB for each member.
class StoreServer {
 public:
  static constexpr size_t kOpenBytes = size_t{8} << 20;

  /// Listens. Throws Error (user): an address that cannot be used, listening that is not safe (check_listening), a damaged snapshot.
  explicit StoreServer(StoreServerOptions options);
  /// Ends all connections, and saves a last snapshot.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// With the port that it got: "127.0.0.1:40123".
  std::string address() const;

  struct Memory {
    size_t arenas = 0;       ///< bytes of the parameters and the optimizer's state
    size_t most_beside = 0;  ///< the most bytes so far of sums that were not complete and frames in hand
  };
  Memory memory() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace telar
