#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "support/small_team.h"
#include "telar/core/buffer.h"
#include "telar/device/device.h"

namespace telar::test {

/// The relative L2 distance of two tensors; the absolute distance if the reference is (nearly) zero.
double relative_error(std::span<const float> values, std::span<const float> reference);

/// Normally distributed random numbers that depend only on the stream.
std::vector<float> numbers(int64_t count, uint64_t stream);

/// The device under test: the CPU with a team of `threads`; in another test program a GPU or its stand-in.
std::unique_ptr<Device> tested_device(int threads = small_team());

/// Why the device under test cannot compute in bf16; empty if it can.
std::string bf16_missing_here();

/// A graph without communication, compiled for the device under test or another one, with memory for its
/// parameters and gradients.
class GraphRun {
 public:
  explicit GraphRun(const Graph& graph, Accumulation accumulation = Accumulation::overwrite,
                    int threads = small_team())
      : GraphRun(graph, tested_device(threads), accumulation) {}
  /// Runs on the given device. `tf32`, `non_finite`: see CompileOptions.
  GraphRun(const Graph& graph, std::unique_ptr<Device> device,
           Accumulation accumulation = Accumulation::overwrite, bool tf32 = false, bool non_finite = false);

  void set_parameter(const std::string& name, std::span<const float> values);
  void set_input(const std::string& name, std::span<const float> values);
  void set_input(const std::string& name, std::span<const int32_t> values);
  void run();
  std::vector<float> output(const std::string& name) { return context_->output(name); }
  std::vector<float> gradient(const std::string& parameter) const;

 private:
  void keep(const std::string& name, std::span<const std::byte> values);

  std::unique_ptr<Device> device_;
  std::unique_ptr<Executable> executable_;
  ArenaLayout arena_;
  std::unique_ptr<Memory> parameters_;
  std::unique_ptr<Memory> gradients_;
  std::unique_ptr<Memory> activations_;
  std::map<std::string, Buffer> inputs_;
  std::unique_ptr<Context> context_;
};

}  // namespace telar::test
