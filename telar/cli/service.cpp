#include "telar/cli/service.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>

#include "telar/core/error.h"

namespace telar::cli {

void add_security(Verb& verb, SecurityArguments& arguments) {
  verb.option(
      "--token-file", arguments.token_file,
      "File with the job's token, the same for all of its processes; without it, the environment variable TELAR_TOKEN");
  verb.option(
      "--certificates", arguments.certificates,
      "Folder with ca.pem, cert.pem and key.pem (see scripts/certs): use TLS, with both sides authenticated");
  verb.flag("--insecure-network", arguments.insecure_network,
            "Connect to other hosts without TLS and token; only for networks that nobody else can reach");
}

Security security_of(const SecurityArguments& arguments) {
  Security security{"", arguments.certificates, arguments.insecure_network};
  if (arguments.token_file.empty()) {
    const char* token = std::getenv("TELAR_TOKEN");  // NOLINT(concurrency-mt-unsafe): nobody changes it
    if (token != nullptr) security.token = token;
    return security;
  }
  std::ifstream file(arguments.token_file);
  if (!file.is_open())
    throw user_error("{}: the token file cannot be read; check that it exists and that this user may read it",
                     arguments.token_file);
  if (!std::getline(file, security.token) || security.token.empty())
    throw user_error("{}: this file contains no token; the token must be the first line",
                     arguments.token_file);
  return security;
}

ServiceEnd::ServiceEnd(int64_t parent)
    : thread_([this, parent](const std::stop_token& over) {
        while (!over.stop_requested()) {
          if (stop_.requested() || (parent != 0 && ::getppid() != parent)) source_.request_stop();
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
      }) {}

void log_line(const std::string& text) {
  static std::mutex mutex;
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::scoped_lock lock(mutex);
  std::cout << fmt::format("{:%H:%M:%S} {}", fmt::localtime(std::chrono::system_clock::to_time_t(now)), text)
            << std::endl;
}

}  // namespace telar::cli
