#include "ops/run_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "telar/core/error.h"
#include "telar/core/random.h"
#include "telar/device/cpu/processor_support.h"

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

std::string bf16_missing_here() {
  return tested_device()->name().starts_with("cpu") ? cpu::bf16_missing() : "";
}

GraphRun::GraphRun(const Graph& graph, std::unique_ptr<Device> device, Accumulation accumulation, bool tf32,
                   bool non_finite)
    : device_(std::move(device)) {
  device_->enter();
  CompileOptions options;
  options.accumulation = accumulation;
  options.tf32 = tf32;
  options.non_finite = non_finite;
  executable_ = device_->compile(graph, options);
  arena_ = ArenaLayout::pack(executable_->parameter_layouts());
  parameters_ = device_->allocate(arena_.bytes);
  gradients_ = device_->allocate(arena_.bytes);
  if (accumulation == Accumulation::overwrite) {  // so that a missing write shows
    const std::vector<float> unset(arena_.bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());
    device_->copy_in(std::as_bytes(std::span(unset)), gradients_->data());
  }
  activations_ = device_->allocate(executable_->activation_bytes());
  Bindings bindings;
  bindings.parameters = parameters_->data();
  bindings.gradients = gradients_->data();
  bindings.activations = {activations_->data(), activations_->size()};
  context_ = executable_->bind(arena_, bindings);
}

void GraphRun::set_parameter(const std::string& name, std::span<const float> values) {
  const auto& entry = arena_.find(name);
  device_->write(entry.layout, values, parameters_->data() + entry.offset);
}

void GraphRun::keep(const std::string& name, std::span<const std::byte> values) {
  Buffer& buffer = inputs_[name] = Buffer(values.size());
  std::copy(values.begin(), values.end(), buffer.data());
  context_->set_input(name, buffer.data());
}

void GraphRun::set_input(const std::string& name, std::span<const float> values) {
  keep(name, std::as_bytes(values));
}

void GraphRun::set_input(const std::string& name, std::span<const int32_t> values) {
  keep(name, std::as_bytes(values));
}

void GraphRun::run() {
  NoHost host;
  context_->run(host);
}

std::vector<float> GraphRun::gradient(const std::string& parameter) const {
  const auto& entry = arena_.find(parameter);
  std::vector<float> values(static_cast<size_t>(entry.layout.shape.elements()));
  device_->read(entry.layout, gradients_->data() + entry.offset, values);
  return values;
}

}  // namespace telar::test
