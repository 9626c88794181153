#pragma once

#include <map>
#include <memory>
#include <string>

#include "telar/core/buffer.h"
#include "telar/device/device.h"

namespace telar::bench {

/// Runs a graph without parameters on its own device. Its inputs contain normally distributed numbers. Use it
/// only in the thread that creates it.
class GraphRun {
 public:
  GraphRun(const Graph& graph, int threads) : GraphRun(graph, make_cpu_device(threads, {})) {}
  /// `tf32`: see CompileOptions.
  GraphRun(const Graph& graph, std::unique_ptr<Device> device, bool tf32 = false);
  /// Returns when the results are complete, so that the call can be timed.
  void run();
  /// The value of an output after run().
  std::vector<float> output(const std::string& name) { return context_->output(name); }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<Memory> activations_;
  std::map<std::string, Buffer> inputs_;
  std::unique_ptr<Context> context_;
};

}  // namespace telar::bench
