#include "telar/train/run_losses.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace telar {

namespace {

std::string counted(int64_t number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string updates_text(const StoreLosses& server) {
  if (server.unknown == 0) return counted(server.updates, "update");
  if (server.updates == 0) return "an unknown number of updates";
  return "at least " + counted(server.updates, "update");
}

}  // namespace

RunLosses RunLosses::with(const RunLosses& more) const {
  RunLosses sum{.servers = servers,
                .workers = {workers.members + more.workers.members, workers.parts + more.workers.parts},
                .updates = updates + more.updates};
  sum.servers.resize(std::max(servers.size(), more.servers.size()));
  for (size_t s = 0; s < more.servers.size(); ++s) sum.servers[s] = sum.servers[s].with(more.servers[s]);
  return sum;
}

std::string losses_text(const RunLosses& losses) {
  std::string text;
  for (size_t s = 0; s < losses.servers.size(); ++s) {
    const StoreLosses& server = losses.servers[s];
    if (server.restarts == 0) continue;
    text += fmt::format("parameter server {}: {}, {} lost since its snapshots (strategy.snapshot_seconds)\n",
                        s, counted(server.restarts, "restart"), updates_text(server));
  }
  if (losses.workers.members > 0) {
    text += fmt::format("{} lost; others did the {} of batches that they left, so no sample was left out\n",
                        counted(losses.workers.members, "worker"), counted(losses.workers.parts, "part"));
  }
  return text;
}

std::string losses_warning(const RunLosses& losses) {
  std::vector<std::string> servers;
  for (size_t s = 0; s < losses.servers.size(); ++s) {
    const StoreLosses& server = losses.servers[s];
    if (server.unknown > 0 || 10 * server.updates > losses.updates)
      servers.push_back(
          fmt::format("parameter server {} has lost {} of {}", s, updates_text(server), losses.updates));
  }
  if (servers.empty()) return {};
  return fmt::format("{}: the result is not that of a whole training", fmt::join(servers, ", "));
}

}  // namespace telar
