#include "telar/runtime/stage_pass.h"

#include <utility>

#include "telar/graph/idle_member.h"

namespace telar {

StagePass::StagePass(StepContext& worker, StageExchange& exchange, CommonMemory& activations,
                     const GraphForms& graph, const std::vector<Crossing>& crossings)
    : worker_(worker),
      exchange_(exchange),
      activations_(activations),
      link_(worker, exchange, crossings),
      graph_(graph) {
  link_.add_names(*graph.fused);
}

Executable& StagePass::executable(const SampleCounts& samples) {
  std::unique_ptr<Executable>& known = executables_[samples];
  if (known) return *known;
  const Graph& graph = samples.non_finite ? *graph_.plain : *graph_.fused;
  known = worker_.device().compile(for_samples(graph, samples.own, samples.rows),
                                   {.parameters = &worker_.home().arena,
                                    .metrics = worker_.program().metrics,
                                    .delivered = &exchange_.layouts,
                                    .non_finite = samples.non_finite});
  for (const auto& [name, layout] : known->delivered_layouts()) exchange_.layouts.emplace(name, layout);
  return *known;
}

void StagePass::bind(Plan& plan) {
  size_t bytes = 0;
  for (const MicroBatch& micro_batch : plan.micro_batches)
    bytes = std::max(bytes, micro_batch.executable->activation_bytes());
  const std::span<std::byte> activations = activations_.at_least(bytes);
  std::vector<MicroBatchPart> parts;
  for (MicroBatch& micro_batch : plan.micro_batches) {
    const auto addresses = exchange_.addresses(micro_batch.part.first);
    Bindings bindings = worker_.bindings();
    bindings.activations = activations;
    bindings.delivered = &addresses;
    micro_batch.context = micro_batch.executable->bind(worker_.home().arena, bindings);
    parts.push_back(micro_batch.part);
  }
  plan.messages = link_.messages(parts);
  plan.generation = generation();
}

StagePass::Plan& StagePass::plan_for(const SampleCounts& batch) {
  if (std::exchange(resets_, exchange_.resets()) != exchange_.resets()) plans_.clear();
  const bool known = plans_.contains(batch);  // the same in all stages, because all have had the same batches
  Plan& plan = plans_[batch];
  if (!known) {
    link_.in_order([&] {
      for (const MicroBatchPart& part : micro_batch_parts(batch, worker_.program()))
        plan.micro_batches.push_back({part, &executable(part.samples), nullptr});
    });
    link_.reserve(batch.own);
  }
  if (plan.generation != generation()) bind(plan);
  return plan;
}

std::vector<float> StagePass::run(const BatchView& batch) {
  Plan& plan = plan_for(SampleCounts(batch));
  link_.begin();
  plan.messages.start_receiving();
  std::vector<float> outputs;
  for (size_t i = 0; i < plan.micro_batches.size(); ++i) {
    MicroBatch& micro_batch = plan.micro_batches[i];
    link_.receive(plan.messages, true, i);
    link_.wait_forward(i);
    worker_.set_inputs(*micro_batch.context,
                       slice(batch, micro_batch.part.first, micro_batch.part.samples.own, exchange_.inputs),
                       0);
    micro_batch.context->run(worker_);
    link_.advance_forward();
    StageLink::send(plan.messages, true, i);
    if (graph_.fused->outputs().empty() || micro_batch.part.samples.own == 0) continue;
    const std::vector<float> output = micro_batch.context->output("prediction");
    outputs.insert(outputs.end(), output.begin(), output.end());
  }
  link_.finish_sending(plan.messages);
  return outputs;
}

}  // namespace telar
