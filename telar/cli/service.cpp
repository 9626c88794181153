#include "telar/cli/service.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>

#include "telar/core/error.h"
#include "telar/io/text_file.h"

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
  const std::string text = read_text_file(arguments.token_file, "the token file");
  security.token = text.substr(0, text.find('\n'));
  if (security.token.empty())
    throw user_error("{}: this file contains no token; the token must be the first line",
                     arguments.token_file);
  return security;
}

void add_supervised(Verb& verb, bool& supervised) {
  verb.flag("--supervised", supervised, "End with the standard input, and say what telar launch needs")
      .hidden();
}

EndsWithInput::EndsWithInput()
    : thread_([](const std::stop_token& over) {
        constexpr int kLook = 50;             // milliseconds
        constexpr int kLooksBetween = 6'000;  // 5 minutes
        std::array<char, 256> ignored{};
        pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
        while (::poll(&input, 1, kLook) <= 0 || ::read(STDIN_FILENO, ignored.data(), ignored.size()) > 0)
          if (over.stop_requested()) return;
        for (int look = 0; !over.stop_requested(); ++look) {
          if (look % kLooksBetween == 0) ::kill(::getpid(), SIGTERM);
          std::this_thread::sleep_for(std::chrono::milliseconds(kLook));
        }
      }) {}

ServiceEnd::ServiceEnd(int64_t parent, StopRequest::Messages messages)
    : stop_(messages), thread_([this, parent](const std::stop_token& over) {
        while (!over.stop_requested()) {
          if (stop_.requested() || (parent != 0 && ::getppid() != parent)) source_.request_stop();
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
      }) {}

}  // namespace telar::cli
