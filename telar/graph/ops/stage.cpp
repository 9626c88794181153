#include "telar/graph/ops/stage.h"

namespace telar {

namespace {

class WithoutResult : public Op {
 public:
  bool has_effect() const override { return true; }
  std::vector<TensorType> infer(const std::vector<TensorType>&, const Attributes&) const override {
    return {};
  }
};

class DeliverOp final : public WithoutResult {
 public:
  std::string_view name() const override { return "deliver"; }
};

class PauseOp final : public WithoutResult {
 public:
  std::string_view name() const override { return "pause"; }
};

const DeliverOp kDeliver;
const PauseOp kPause;

}  // namespace

void deliver(GraphBuilder& builder, ValueId value, const std::string& name) {
  builder.add(kDeliver, {value}, {{"name", name}});
}

void pause(GraphBuilder& builder) { builder.add(kPause, {}); }

}  // namespace telar
