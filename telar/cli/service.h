#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "telar/cli/command_line.h"
#include "telar/comm/network.h"
#include "telar/observe/stop_request.h"

namespace telar::cli {

/// The options of the verbs that use the network: --token-file, --certificates, --insecure-network.
struct SecurityArguments {
  std::string token_file;
  std::string certificates;
  bool insecure_network = false;
};
void add_security(Verb& verb, SecurityArguments& arguments);

/// The token is the first line of the token file; without a file, the environment variable TELAR_TOKEN.
/// Throws Error (user) if the file cannot be read or contains no token.
Security security_of(const SecurityArguments& arguments);

/// The hidden option --supervised of a verb whose processes `telar launch` starts
/// (telar/launch/supervisor.h).
void add_supervised(Verb& verb, bool& supervised);

/// Sends this process SIGTERM when its standard input ends, as it does when the process at its other end has
/// ended, on whatever host that is; and again after 5 minutes, which ends it at once.
class EndsWithInput {
 public:
  EndsWithInput();

 private:
  std::jthread thread_;
};

/// Ends a service at Ctrl-C, SIGTERM or SIGHUP, or when the process that started it (`parent`, 0: none) has
/// ended.
class ServiceEnd {
 public:
  ServiceEnd(int64_t parent, StopRequest::Messages messages);
  std::stop_token token() const { return source_.get_token(); }
  /// 0, or the signal that ended the service.
  int signal_number() const { return stop_.signal_number(); }

 private:
  StopRequest stop_;
  std::stop_source source_;
  std::jthread thread_;
};

}  // namespace telar::cli
