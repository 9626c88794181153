#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "telar/comm/frame_service.h"
#include "telar/comm/grpc_security.h"
#include "telar/comm/peers/peer_links.h"
#include "telar/comm/peers/peers.grpc.pb.h"

namespace telar {

/// The method of connections between peers.
inline constexpr char kPeerMessagesMethod[] = "/telar.peers.Messages/Exchange";
/// Of a message: frames have 1 MB, the introduction carries the job.
inline constexpr int kMostPeerBytes = 8 << 20;

/// Who this process is, except where it listens.
peers::Arrival own_arrival();

/// Where other processes reach this one. That of rank 0 also holds the meeting; any can give places later.
class PeerServer final : public peers::Meeting::Service {
 public:
  /// `processes`: of the meeting that it holds; 0: none. Throws Error (user) if listening at `address` is not
  /// possible or not safe.
  PeerServer(const std::string& address, PeerOptions options, int processes);
  /// Ends all connections.
  ~PeerServer() override;
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;

  std::string address() const { return builder_.address(); }

  /// Waits for the others. Returns what rank 0 is told: who all are. Throws as PeerMeeting::wait().
  peers::Introduction gather(const std::string& description, const std::function<void()>& check);

  /// Gives the next place of a group that has begun: what its new process is told; empty: none is free.
  using Place = std::function<std::optional<peers::Introduction>(const peers::Introduced&)>;
  /// From now on a process that comes waits for a place. An empty one ends that: the run is over.
  void admit(Place place);
  /// How many have come and heard so, after it had ended.
  int told_over() {
    const std::lock_guard lock(mutex_);
    return told_over_;
  }

  /// From now on `serve` is called for each connection, on a thread of its own, until it returns.
  void serve_by(FrameService::Serve serve);
  /// Waits until all connections have ended, and calls `meanwhile` again and again.
  void serve_no_more(const std::function<void()>& meanwhile);

 private:
  grpc::Status Join(grpc::ServerContext* context, const peers::Arrival* arrival,
                    peers::Introduction* reply) override;
  /// Of a process that comes when all have come. Waits.
  grpc::Status take_place(grpc::ServerContext& context, const peers::Introduced& one,
                          peers::Introduction* reply, std::unique_lock<std::mutex>& lock);
  grpc::Status accept(grpc::ServerContext& context, FrameServerStream& stream);
  void introduce_all(const std::string& description);

  PeerOptions options_;
  FrameService messages_;
  SecureServerBuilder builder_;
  std::mutex mutex_;  ///< guards the members below
  std::condition_variable changed_;
  int processes_;        ///< of the group
  std::string refused_;  ///< why there is no group
  std::vector<peers::Introduced> arrived_;
  peers::Introduction introduction_;
  bool introduced_ = false;
  bool over_ = false;
  Place place_;
  bool ended_ = false;  ///< there will be no place_ any more
  int told_over_ = 0;
  FrameService::Serve serve_;
  int serving_ = 0;
  std::unique_ptr<SecureServer> server_;
};

}  // namespace telar
