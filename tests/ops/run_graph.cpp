#include "ops/run_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "telar/core/error.h"
#include "telar/core/random.h"

namespace telar::test {

namespace {

class NoHost final : public HostOperations {
 public:
  void communicate(const Node& node, std::span<float> /*memory*/) override {
    throw run_error("a graph of the operation tests communicates: {}", node.op->name());
  }
};

}  // namespace

double relative_error(std::span<const float> values, std::span<const float> reference) {
  if (values.size() != reference.size()) return INFINITY;
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double d = static_cast<double>(values[i]) - reference[i];
    difference += d * d;
    norm += static_cast<double>(reference[i]) * reference[i];
  }
  return norm < 1e-12 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

std::vector<float> numbers(int64_t count, uint64_t stream) {
  RandomSequence sequence(1, stream);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = sequence.normal();
  return values;
}

GraphRun::GraphRun(const Graph& graph, Accumulation accumulation, int threads)
    : device_(make_cpu_device(threads, {})) {
  device_->enter();
  CompileOptions options;
  options.accumulation = accumulation;
  executable_ = device_->compile(graph, options);
  arena_ = ArenaLayout::pack(executable_->parameter_layouts());
  parameters_ = Buffer(std::max<size_t>(arena_.bytes, 1));
  gradients_ = Buffer(std::max<size_t>(arena_.bytes, 1));
  if (accumulation == Accumulation::overwrite) {  // every element must be written
    std::ranges::fill(gradients_.as<float>(), std::numeric_limits<float>::quiet_NaN());
  }
  Bindings bindings;
  bindings.parameters = parameters_.data();
  bindings.gradients = gradients_.data();
  activations_ = Buffer(executable_->activation_bytes());
  bindings.activations = activations_.as<std::byte>();
  context_ = executable_->bind(arena_, bindings);
}

void GraphRun::set_parameter(const std::string& name, std::span<const float> values) {
  const auto& slot = arena_.find(name);
  device_->write(slot.layout, values, parameters_.data() + slot.offset);
}

std::span<std::byte> GraphRun::keep(const std::string& name, size_t bytes) {
  Buffer& buffer = inputs_[name] = Buffer(bytes);
  context_->set_input(name, buffer.data());
  return {buffer.data(), bytes};
}

void GraphRun::set_input(const std::string& name, std::span<const float> values) {
  std::memcpy(keep(name, values.size_bytes()).data(), values.data(), values.size_bytes());
}

void GraphRun::set_input(const std::string& name, std::span<const int32_t> values) {
  std::memcpy(keep(name, values.size_bytes()).data(), values.data(), values.size_bytes());
}

void GraphRun::run() {
  NoHost host;
  context_->run(host);
}

std::vector<float> GraphRun::gradient(const std::string& parameter) const {
  const auto& slot = arena_.find(parameter);
  std::vector<float> values(static_cast<size_t>(slot.layout.shape.elements()));
  device_->read(slot.layout, gradients_.data() + slot.offset, values);
  return values;
}

}  // namespace telar::test
