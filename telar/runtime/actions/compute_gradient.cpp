#include <cmath>
#include <vector>

#include "telar/core/error.h"
#include "telar/runtime/action.h"

namespace telar {

namespace {

class ComputeGradient final : public Action {
 public:
  ComputeGradient(const ScheduledAction& scheduled, StepContext& context) : group_(context.group()) {
    if (context.stage() != nullptr) {
      throw run_error("a pipeline stage cannot perform '{}'; its actions are '{}' and '{}'",
                      scheduled.kind.name(), action::kForward.name(), action::kBackward.name());
    }
  }

  void run(StepContext& context) override {
    context.computing([&] { compute_again(context); });
    if (trains_alone(context.schedule())) look_again(context);
    PendingPush* pending = context.pending_push();
    if (pending == nullptr) return;
    StepResult& result = context.step().result;
    result.finite = std::isfinite(context.metrics().values()[0]);
    result.fate = StepResult::Fate::pending;
    if (result.finite) pending->add(context.gradients().arena(), context.request().part.size);
  }

  bool may_run_ahead(const StepContext& context) const override {
    return sums_ahead(group_) && !context.uses_servers();
  }

  void compute_again(StepContext& context) override { compute(context); }

 private:
  static void compute(StepContext& context) {
    const StepRequest& request = context.request();
    const CompiledGraphs::Use use(CompiledGraphs::Purpose::gradient, context.phase());
    if (!context.graphs().runs(use, request.part)) return contribute_zeros(context);
    Context& graph = context.graphs().context(use, request.part);
    context.did(StepPhase::other, "finds or compiles kernels");
    context.set_inputs(graph, request.part, request.inputs.epoch);
    context.did(StepPhase::copy, "takes the batch");
    context.run(graph, Phase::whole, StepPhase::forward);
  }

  /// The session looks again for NaN and infinities that kernels may have hidden, but a worker that trains
  /// alone has then updated.
  static void look_again(StepContext& context) {
    const BatchView& part = context.request().part;
    if (part.non_finite || part.again || std::isfinite(context.metrics().values()[0])) return;
    context.hide_nothing();
    context.metrics().clear();
    context.computing([&] { compute(context); });
  }

  /// A part without samples contributes zeros and joins every exchange, except those of samples: if the
  /// worker computes batches with others, these have none either.
  static void contribute_zeros(StepContext& context) {
    context.device().zero(context.gradients().arena(), context.home().arena.bytes);
    context.did(StepPhase::backward, "clears gradients");
    const Graph& graph = context.gradient_graph();
    for (const Node& node : graph.nodes()) {
      if (!node.op->communicates() || node.op->exchanges_samples()) continue;
      std::vector<float> zeros;
      if (!node.outputs.empty())
        zeros.resize(static_cast<size_t>(graph.value(node.outputs[0]).type.shape.elements()));
      context.communicate(node, zeros);
    }
  }

  Group* group_;
};

}  // namespace

void register_compute_gradient(ActionRegistry& registry) {
  registry.add<ComputeGradient>(action::kComputeGradient);
}

}  // namespace telar
