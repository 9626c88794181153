#include "telar/train/run_graph.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "telar/device/cuda.h"
#include "telar/train/job_devices.h"

namespace telar {

namespace {

/// "/job:ps/task:1/device:CPU:0" for each variable on parameter servers. For a variable that is split, the
/// server of its first rows.
std::map<std::string, std::string> server_of_variables(const Program& program) {
  std::map<std::string, std::string> devices;
  for (const StoreProgram& store : program.stores) {
    for (size_t s = 0; s < store.servers.size(); ++s) {
      for (const Piece& piece : store.servers[s].pieces)
        if (piece.begin == 0) devices[piece.variable] = fmt::format("/job:ps/task:{}/device:CPU:0", s);
    }
  }
  return devices;
}

/// The name of a device as TensorFlow writes it: "GPU:1".
std::string tensorboard_name(const std::string& device) {
  const std::optional<int> gpu = cuda_number(device_named(device).kind);
  return gpu ? fmt::format("GPU:{}", *gpu) : "CPU:0";
}

}  // namespace

std::vector<GraphNode> run_graph(const Program& program, const StrategyJob& strategy) {
  const std::map<std::string, std::string> servers = server_of_variables(program);
  std::vector<GraphNode> nodes;
  const int64_t workers = program.mesh.of_process();
  for (int64_t w = 0; w < workers; ++w) {
    const std::string device = fmt::format("/job:worker/replica:{}/device:{}", w,
                                           tensorboard_name(device_of(strategy, static_cast<size_t>(w))));
    const std::string prefix = workers == 1 ? "" : fmt::format("worker{}", w);
    for (GraphNode& node : graph_nodes(program.worker(w).gradient, device, prefix, servers))
      nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace telar
