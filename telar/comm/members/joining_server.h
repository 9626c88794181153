#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "telar/comm/network.h"
#include "telar/core/error.h"

namespace telar {

struct JoiningServerOptions {
  std::string coordinator;
  Security security;
  std::string address;             ///< where the coordinator and all members reach the parameter server
  std::function<bool()> followed;  ///< whether a coordinator asks for the server's state (StoreServer)
  std::function<void(const std::string&)> say;  ///< from a thread of its own; may be empty
};

/// A parameter server that joins a run. It asks the coordinator for it whenever nobody follows it: at first,
/// after the coordinator was started again, and when it was away for so long that it was forgotten.
class JoiningServer {
 public:
  explicit JoiningServer(JoiningServerOptions options);

  /// Why the coordinator does not want it; it has not asked since.
  std::optional<Error> refusal() const;

 private:
  void ask_for_ever(const std::stop_token& over);

  const JoiningServerOptions options_;
  mutable std::mutex mutex_;
  std::optional<Error> refusal_;
  std::jthread thread_;
};

}  // namespace telar
