#include "telar/graph/ops/stage.h"

namespace telar {

namespace {

class WithoutResult : public Op {
 public:
  std::vector<TensorType> infer(const std::vector<TensorType>&, const Attributes&) const override {
    return {};
  }
};

class DeliverOp final : public WithoutResult {
 public:
  std::string_view name() const override { return "deliver"; }
  Effect effect() const override { return Effect::delivers; }
};

class PauseOp final : public WithoutResult {
 public:
  std::string_view name() const override { return "pause"; }
  Effect effect() const override { return Effect::pauses; }
};

const DeliverOp kDeliver;
const PauseOp kPause;

}  // namespace

void deliver(GraphBuilder& builder, ValueId value, const std::string& name) {
  builder.add(kDeliver, {value}, {{"name", name}});
}

void pause(GraphBuilder& builder) { builder.add(kPause, {}); }

}  // namespace telar
