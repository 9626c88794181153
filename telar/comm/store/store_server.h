#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "telar/comm/network.h"
#include "telar/comm/store/store_update.h"

namespace telar {

struct StoreServerOptions {
  std::string listen = "127.0.0.1:0";  ///< port 0: any free port
  Security security;
  std::string snapshots;  ///< folder for snapshots of the state, also read at the start; empty: none
  bool fresh = false;     ///< what an earlier server has left there is removed
  double snapshot_seconds =
      0;                     ///< between two snapshots: the most that a crash can lose; 0: snapshot_pause()
  double round_seconds = 5;  ///< silence after which a member is given up while others of its round wait
  double keepalive_seconds = 10;  ///< a member whose host is silent for twice this time has left
  bool shared_memory = true;      ///< with workers and servers of this host
  StoreUpdateFactory make_update;
  /// gets log messages, from any thread; may be empty. Clients wait for it: it must not wait for a reader
  /// (ServiceLog).
  std::function<void(const std::string&)> say;
};

/// A parameter server: holds pieces of one job's variables and their optimizer state, and serves workers on
/// its own threads. The first StoreClient::create determines the job; other jobs are refused. A server that
/// is restarted on the same snapshot folder continues from the last snapshot.
///
/// Its memory consists of the parameters, the optimizer state, at most HeldStore::kOpenBytes for incomplete
/// sums, and
/// three buffers of 1 MB for each member: a received push, an answer, and scratch memory to gather floats. In
/// addition, gRPC receives up to 4 MB for each member.
class StoreServer {
 public:
  /// Starts to listen. Throws Error (user) if the address is invalid, listening there is not safe
  /// (check_listening), or a snapshot is damaged.
  explicit StoreServer(StoreServerOptions options);
  /// Ends all connections and saves a last snapshot.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// The address with the actual port: "127.0.0.1:40123".
  std::string address() const;
  /// Asks the coordinator to leave this server out, and waits until other servers have whole copies of all
  /// that it holds. Returns at once if its blocks have no copies. Returns false if the coordinator does not
  /// ask any more, or no other server has them within `longest`.
  bool leave(std::chrono::seconds longest);
  /// Whether a member is connected: the coordinator or a worker.
  bool in_use() const;

  /// Whether a coordinator has asked for this server's state within that time.
  bool followed(std::chrono::milliseconds since);

  struct Memory {
    size_t arenas = 0;       ///< bytes of the parameters and the optimizer state
    size_t most_beside = 0;  ///< peak bytes of incomplete sums and of frames in hand
  };
  Memory memory() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace telar
