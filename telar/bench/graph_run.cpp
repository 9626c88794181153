#include "telar/bench/graph_run.h"

#include <bit>

#include "telar/core/error.h"
#include "telar/core/random.h"

namespace telar::bench {

namespace {

class NoHost final : public HostOperations {
 public:
  void communicate(const Node& node, std::span<float> /*memory*/) override {
    throw run_error("a graph that runs alone cannot communicate: {}", node.op->name());
  }
};

void fill(Buffer& buffer, DType dtype, uint64_t stream) {
  constexpr uint64_t kSeed = 1;
  RandomSequence random(kSeed, stream);
  if (dtype == DType::f32) {
    for (float& value : buffer.as<float>()) value = random.normal();
  } else {
    for (uint16_t& value : buffer.as<uint16_t>())
      value = static_cast<uint16_t>(std::bit_cast<uint32_t>(random.normal()) >> 16);
  }
}

}  // namespace

GraphRun::GraphRun(const Graph& graph, std::unique_ptr<Device> device, bool tf32)
    : device_(std::move(device)) {
  device_->enter();
  executable_ = device_->compile(graph, {.tf32 = tf32});
  activations_ = device_->allocate(executable_->activation_bytes());
  Bindings bindings;
  bindings.activations = {activations_->data(), activations_->size()};
  context_ = executable_->bind(ArenaLayout::pack({}), bindings);
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::input) continue;
    Buffer& buffer = inputs_[value.name] =
        Buffer(static_cast<size_t>(value.type.shape.elements()) * size_of(value.type.dtype));
    fill(buffer, value.type.dtype, inputs_.size());
    context_->set_input(value.name, buffer.data());
  }
}

void GraphRun::run() {
  NoHost host;
  context_->run(host);
  device_->synchronise();
}

}  // namespace telar::bench
