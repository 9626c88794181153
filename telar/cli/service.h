#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "telar/cli/command_line.h"
#include "telar/comm/network.h"
#include "telar/observe/stop_request.h"

namespace telar::cli {

/// What the verbs that speak over the network have in common: --token-file, --certificates, --insecure-network.
struct SecurityArguments {
  std::string token_file;
  std::string certificates;
  bool insecure_network = false;
};
void add_security(Verb& verb, SecurityArguments& arguments);

/// The token is the file's first line, or else TELAR_TOKEN of the environment. Throws Error (user) for a file that cannot be read.
Security security_of(const SecurityArguments& arguments);

/// Ends a service when Ctrl-C or SIGTERM comes, or when the process that started it (`parent`, 0: none) has gone.
class ServiceEnd {
 public:
  explicit ServiceEnd(int64_t parent);
  std::stop_token token() const { return source_.get_token(); }
  /// 0, or the signal that ended it.
  int signal_number() const { return stop_.signal_number(); }

 private:
  StopRequest stop_;
  std::stop_source source_;
  std::jthread thread_;
};

/// Prints a line with the time of day at once.
void log_line(const std::string& text);

}  // namespace telar::cli
