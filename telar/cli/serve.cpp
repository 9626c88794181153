#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include "telar/cli/service.h"
#include "telar/cli/verbs.h"
#include "telar/comm/members/joining_server.h"
#include "telar/comm/store/store_server.h"
#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
#include "telar/io/disk.h"
#include "telar/launch/supervisor.h"
#include "telar/observe/process.h"
#include "telar/observe/service_log.h"
#include "telar/runtime/server_update.h"

namespace telar::cli {

namespace {

constexpr StopRequest::Messages kServeStops = {
    "ending after a last snapshot; a second Ctrl-C quits at once, and only the snapshot before remains\n",
    "quitting at once; updates since the last snapshot are lost\n"};
constexpr StopRequest::Messages kStopsWithoutSnapshots = {
    "ending without a snapshot (--snapshots keeps them); a second Ctrl-C quits at once\n",
    "quitting at once\n"};

/// For a copy of what this server holds. Kubernetes gives a pod 60 s (telar/launch/kubernetes.cpp).
constexpr std::chrono::seconds kLeavesWithin{50};
/// For the others of a supervised run to save a checkpoint, for which they need the servers.
constexpr std::chrono::minutes kNeededFor{5};

struct ServeArguments {
  std::string listen = "127.0.0.1:0";
  std::string join;
  std::string address_file;
  std::string snapshots;
  double snapshot_seconds = 0;
  bool no_shared_memory = false;
  int64_t follow = 0;
  bool supervised = false;
  SecurityArguments security;
};

/// A restarted server keeps the address that its clients know.
std::string listen_address(const ServeArguments& arguments) {
  std::string before;
  const bool any_port = arguments.listen.ends_with(":0");
  if (any_port && !arguments.address_file.empty() && std::ifstream(arguments.address_file) >> before)
    return before;
  return arguments.listen;
}

/// Others must reach a server that joins under the address that it tells the coordinator.
void require_host(const ServeArguments& arguments) {
  if (arguments.join.empty()) return;
  const std::string listen = listen_address(arguments);
  const Address address = Address::parse(listen);
  if (address.host == "0.0.0.0" || address.host == "::" ||
      (address.loopback() && !Address::parse(arguments.join).loopback()))
    throw user_error(
        "--listen {}: a server that joins a run tells the coordinator its address, so --listen names its host, as in --listen {}:{}",
        listen, host_name(), address.port);
}

/// Whether a coordinator asks for the server's state, five times a second.
constexpr std::chrono::seconds kFollowed{3};

int serve(const ServeArguments& arguments) {
  require_host(arguments);
  std::optional<EndsWithInput> ends_with_input;
  if (arguments.supervised) ends_with_input.emplace();
  ServiceEnd end(arguments.follow, arguments.supervised          ? StopRequest::Messages{}
                                   : arguments.snapshots.empty() ? kStopsWithoutSnapshots
                                                                 : kServeStops);
  ServiceLog log(STDOUT_FILENO);
  StoreServerOptions options;
  options.listen = listen_address(arguments);
  options.security = security_of(arguments.security);
  options.snapshots = arguments.snapshots;
  options.snapshot_seconds = arguments.snapshot_seconds;
  options.shared_memory = !arguments.no_shared_memory;
  options.make_update = program_updates();
  options.say = [&log](const std::string& text) { log.line(text); };
  options.fresh =
      arguments.supervised && arguments.listen.ends_with(":0");  // a new one, of a new start of the run
  {
    StoreServer server(options);
    if (!arguments.address_file.empty()) write_file(arguments.address_file, server.address() + "\n");
    if (arguments.supervised)
      std::cout << kAddressLine << server.address() << std::endl;
    else
      log.line("serving parameters on " + server.address());
    std::optional<JoiningServer> joining;
    if (!arguments.join.empty())
      joining.emplace(JoiningServerOptions{.coordinator = arguments.join,
                                           .security = options.security,
                                           .address = server.address(),
                                           .followed = [&server] { return server.followed(kFollowed); },
                                           .say = options.say});
    const auto sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
    while (!end.token().stop_requested()) {
      if (joining)
        if (const std::optional<Error> refusal = joining->refusal()) throw Error(*refusal);
      sleep();
    }
    joining.reset();
    const auto last = std::chrono::steady_clock::now() + kNeededFor;
    while (arguments.supervised && server.in_use() && std::chrono::steady_clock::now() < last) sleep();
    // A server that follows the run ends with it.
    if (arguments.follow == 0 && !arguments.supervised && !server.leave(kLeavesWithin))
      log.line("ending, although no other server is known to have all that this one has");
    log.line("ending");
  }
  return log.finish(end.signal_number() == 0 ? 0 : 128 + end.signal_number());
}

}  // namespace

void add_serve(Verb& program) {
  auto arguments = std::make_shared<ServeArguments>();
  Verb verb = program.subverb("serve", "Runs a parameter server for workers on other hosts");
  verb.option("--listen", arguments->listen, "HOST:PORT to listen on; port 0: any free port").show_default();
  verb.option("--join", arguments->join,
              "HOST:PORT of the coordinator of a training: the server joins it and takes a share of the "
              "copies (strategy.server_replicas: 2)");
  verb.option("--address-file", arguments->address_file,
              "Write the address to this file; with port 0, a restarted server takes its address from it");
  const Option snapshots =
      verb.option("--snapshots", arguments->snapshots,
                  "Folder for snapshots; a restarted server continues from the last one");
  verb.option(
          "--snapshot-seconds", arguments->snapshot_seconds,
          "Seconds between two snapshots; 0: 1 s, in longer runs 1 % of the time up to 10 s, and more if snapshots would take more than 2 % of a processor or half of the disk")
      .show_default()
      .between(0.0, 1e6)
      .needs(snapshots);
  verb.flag("--no-shared-memory", arguments->no_shared_memory,
            "Use the network even for workers on this host");
  verb.option("--follow", arguments->follow, "End when this process ends").hidden();
  add_supervised(verb, arguments->supervised);
  add_security(verb, arguments->security);
  verb.footer(
      "Examples:\n"
      "  telar serve --listen 0.0.0.0:7001 --certificates certs --token-file token --snapshots /var/lib/telar\n"
      "  telar serve --listen host-4:7001 --join host-1:7000 --certificates certs --token-file token\n"
      "One server serves one job. Ctrl-C, SIGTERM or SIGHUP ends it, after a last snapshot if it keeps them, and with copies (strategy.server_replicas) when another server has all that it has.");
  verb.action_of_each_process([arguments] { return serve(*arguments); });
}

}  // namespace telar::cli
