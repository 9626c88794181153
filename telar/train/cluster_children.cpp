#include "telar/train/cluster_children.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "telar/observe/process.h"
#include "telar/train/job_devices.h"
#include "telar/train/job_loader.h"
#include "telar/train/job_strategy.h"

namespace telar {

namespace {

std::map<std::string, std::string> token_environment(const Security& security) {
  return security.token.empty() ? std::map<std::string, std::string>{}
                                : std::map<std::string, std::string>{{"TELAR_TOKEN", security.token}};
}

}  // namespace

std::string worker_name(int64_t number) { return fmt::format("worker {}", number); }

ChildStart server_start(const ClusterOptions& options, const StrategyJob& strategy, int64_t number,
                        const std::string& listen, const std::filesystem::path& own) {
  std::vector<std::string> words = {options.program,  "serve",
                                    "--listen",       listen,
                                    "--address-file", (own / "address").string(),
                                    "--follow",       std::to_string(::getpid())};
  if (server_copies(strategy) == 1)
    words.insert(words.end(), {"--snapshots", own.string(), "--snapshot-seconds",
                               fmt::format("{}", strategy.snapshot_seconds)});
  const Security& security = options.security;
  if (!security.certificates.empty()) words.insert(words.end(), {"--certificates", security.certificates});
  if (security.insecure_network) words.push_back("--insecure-network");
  return {.name = fmt::format("server {}", number),
          .words = std::move(words),
          .environment = token_environment(security),
          .log = options.folder / "logs" / fmt::format("server-{}.log", number)};
}

ChildStart worker_start(const ClusterOptions& options, const Job& job, int64_t number,
                        const std::string& coordinator) {
  const StrategyJob& strategy = job.strategy;
  const auto share = static_cast<int>(std::max<int64_t>(1, available_threads() / all_workers_of(strategy)));
  const int64_t given =
      strategy.threads.size() == 1 ? strategy.threads[0] : strategy.threads[static_cast<size_t>(number)];
  const std::string& device = device_of(strategy, static_cast<size_t>(number));
  const DeviceSpec spec = device_named(device);
  int64_t threads = given > 0 ? given : share;
  if (!spec.cores.empty()) threads = 0;  // one per core
  const auto computing = static_cast<int>(spec.threads > 0 ? spec.threads : threads);
  int64_t loading = job.data.threads;
  if (loading == kAutomaticThreads) loading = default_loader_threads({share, computing}, job.data.prefetch);
  return {.name = worker_name(number),
          .words = {options.program, "work", "--join", coordinator, "--set",
                    fmt::format("strategy.threads={}", threads), "--set",
                    fmt::format("data.threads={}", loading), "--set",
                    fmt::format("strategy.devices=[\"{}\"]", device), "--follow", std::to_string(::getpid())},
          .environment = token_environment(options.security),
          .log = options.folder / "logs" / fmt::format("worker-{}.log", number),
          .may_leave = [elastic = strategy.elastic.min > 0](int code) { return elastic && code == 0; }};
}

}  // namespace telar
