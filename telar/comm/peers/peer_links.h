#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "telar/comm/linked/links.h"
#include "telar/comm/network.h"

// Processes that were started by anything become a group: one of them listens, the others join it, and all
// connect to each other.
//
// Connections are gRPC streams, as those of parameter servers are: behind the same Door (token before
// anything else), under the same TLS with certificates of both sides. A peer's certificate must be of the
// job's authority and name localhost, which those of scripts/certs do: peers know each other by addresses.

namespace telar {

/// One of the processes that join.
struct PeerOptions {
  std::string purpose;  ///< of the group, the same in all of its processes: "telar train"
  Security security;
  std::stop_token stop;                         ///< ends the waits for others to join with an Error (run)
  std::function<void(const std::string&)> say;  ///< from any thread; may be empty
};

/// The process that becomes rank 0.
class PeerMeeting {
 public:
  /// Listens at `address`. `processes`: how many there will be, with this one. Throws Error (user).
  PeerMeeting(const std::string& address, int processes, std::string description, PeerOptions options);
  ~PeerMeeting();
  PeerMeeting(const PeerMeeting&) = delete;
  PeerMeeting& operator=(const PeerMeeting&) = delete;

  /// With the port.
  std::string address() const;
  /// Waits until all processes have come and are connected. `check`: called meanwhile, to throw. Called once.
  /// Throws Error (user) if one comes that expects another group, Error (run) if it fails.
  std::unique_ptr<ElasticLinks> wait(const std::function<void()>& check = {});
  /// Those who have come, and who come now, are told that the run is over. For `check`, before it throws.
  void needs_nobody();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

struct JoinedPeers {
  std::unique_ptr<ElasticLinks> links;  ///< null: the group has ended before it needed this process
  std::string description;              ///< of rank 0
};

/// Joins a meeting and waits until all have come; if they have, and the group lets others take the places of
/// those it loses, until there is one. `processes`: how many it expects; 0: any number. Empty:
/// there is a process of telar, but it holds no meeting. Throws Error (run) if nobody answers for
/// `patience_seconds`; Error (user) if it is refused.
std::optional<JoinedPeers> join_peers(const std::string& address, int processes, double patience_seconds,
                                      const PeerOptions& options);

/// Listens at `address` and tells those who join there that the run is over: until `late` of them have heard
/// it, `seconds` have passed, or `stop`. Returns how many have. Throws Error (user) if it cannot listen.
int tell_late_processes(const std::string& address, int late, double seconds, const PeerOptions& options,
                        const std::function<bool()>& stop);

}  // namespace telar
