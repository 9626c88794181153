#include "telar/train/job_memory.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/nn/summary.h"
#include "telar/observe/process.h"
#include "telar/train/job_devices.h"
#include "telar/train/job_session.h"
#include "telar/train/job_strategy.h"

namespace telar {

namespace {

std::string size_text(int64_t bytes) { return bytes_text(static_cast<uint64_t>(bytes)); }

struct LargestTensor {
  int64_t bytes = 0;
  std::string text;

  void consider(const std::string& what, const TensorType& type) {
    if (type.bytes() <= bytes) return;
    bytes = type.bytes();
    text = fmt::format("{}, {} ({})", what, type.str(), size_text(bytes));
  }
};

int64_t state_bytes(const TrainingStep& step, LargestTensor& largest) {
  int64_t bytes = 0;
  for (const Value& value : step.update.values()) {
    if (!value.is_of_parameter()) continue;
    bytes += value.type.bytes();
    if (value.kind == ValueKind::parameter)
      largest.consider(fmt::format("the parameter '{}'", value.name), value.type);
  }
  return bytes;
}

void consider_results(const Graph& graph, size_t forward_nodes, LargestTensor& largest) {
  for (size_t n = 0; n < forward_nodes; ++n) {
    const Node& node = graph.nodes()[n];
    for (const TensorType& type : graph.output_types(node))
      largest.consider(fmt::format("the result of layer '{}'", node.scope), type);
  }
}

/// Tokens are checked again when they are looked up, but some data say before which there will be.
void require_known_tokens(const Graph& graph, int64_t vocabulary) {
  for (const Node& node : graph.nodes()) {
    const int64_t rows = node.op->index_count(graph.input_types(node));
    if (rows == 0 || vocabulary <= rows) continue;
    throw user_error(
        "layer '{}' has {} tokens, but the data have {}; the layer's vocabulary must be at least that",
        node.scope, rows, vocabulary);
  }
}

}  // namespace

std::string JobMemory::str() const {
  return fmt::format("{} (weights, gradients and optimizer {}, results of the layers {}, batches {})",
                     size_text(total()), size_text(state), size_text(results), size_text(batches));
}

JobMemory job_memory(const Job& job, const SampleSpec& spec, int processes) {
  const TrainingStep step = job_step(job, spec);
  if (spec.vocabulary > 0) require_known_tokens(step.gradient, spec.vocabulary);
  const auto sample = static_cast<int64_t>(spec.feature_bytes() + spec.label_bytes());
  const int64_t batch = product_of({job.training.batch, sample});
  LargestTensor largest;
  JobMemory memory;
  memory.state = product_of({state_bytes(step, largest), workers_of(job.strategy).states});
  memory.results = kept_result_bytes(step.gradient);
  memory.batches = product_of({batch, job.data.threads != 0 ? job.data.prefetch + 1 : 1});
  const StrategyType& strategy = type_of(job.strategy);
  memory.least_state = memory.state;
  if (strategy.keeps_parts) memory.least_state /= processes;  // at best, all of it is divided among them
  // The replicas of one process divide a batch; with other strategies and more processes, a process computes
  // less at a time.
  const bool whole_batch = processes == 1 && (strategy.count.empty() || workers_of(job.strategy).unequal);
  memory.least = memory.least_state + (whole_batch ? memory.results + memory.batches : 0);
  consider_results(step.gradient, step.forward_nodes, largest);
  memory.largest = largest.text;
  return memory;
}

void require_memory(const JobMemory& memory, uint64_t bytes) {
  if (bytes == 0 || static_cast<uint64_t>(memory.least) <= bytes) return;
  throw user_error(
      "the job needs at least {} of memory, and {} may be used here; a smaller model or training.batch needs less; the largest tensor is {}",
      memory.least == memory.total() ? memory.str() : size_text(memory.least), bytes_text(bytes),
      memory.largest);
}

void require_memory(const Job& job, const SampleSpec& spec, int processes) {
  const JobMemory memory = job_memory(job, spec, processes);
  if (!has_gpu(job.strategy)) require_memory(memory, usable_memory_bytes());
}

void require_memory_of_state(const Job& job, const SampleSpec& spec) {
  JobMemory memory = job_memory(job, spec);
  memory.least = memory.least_state;
  if (!has_gpu(job.strategy)) require_memory(memory, usable_memory_bytes());
}

}  // namespace telar
