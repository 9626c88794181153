#include "telar/runtime/compiled_graphs.h"

#include <fmt/format.h>

#include <algorithm>

#include "telar/core/error.h"
#include "telar/graph/idle_member.h"

namespace telar {

CompiledGraphs::CompiledGraphs(const Device& device, const StateMemory& home, Bindings bindings,
                               CompileOptions options, std::map<Use, GraphForms> graphs)
    : device_(device),
      home_(home),
      bindings_(bindings),
      options_(std::move(options)),
      graphs_(std::move(graphs)) {
  options_.parameters = &home_.arena;
}

bool CompiledGraphs::runs(Use use, const BatchView& batch) const {
  return batch.size > 0 || !batch.rows.empty() ||
         std::ranges::any_of(graphs_.at(use).of(batch).nodes(),
                             [](const Node& node) { return node.op->exchanges_parameters(); });
}

Context& CompiledGraphs::context(Use use, const BatchView& batch) {
  const Key key{use, batch.size, {batch.rows.begin(), batch.rows.end()}, batch.non_finite};
  Compiled& compiled = compiled_[key];
  if (compiled.context) return *compiled.context;
  device_.synchronise();  // the following calls may wait in the device, where no thread checks its peers
  if (!compiled.executable) {
    CompileOptions options = options_;
    options.non_finite = batch.non_finite;
    compiled.executable =
        device_.compile(for_samples(graphs_.at(use).of(batch), batch.size, key.rows), options);
  }
  const size_t bytes = compiled.executable->activation_bytes();
  if (activations_ == nullptr || bytes > activations_->size()) {
    for (auto& other : compiled_) other.second.context.reset();  // they were bound to the smaller memory
    activations_.reset();
    activations_ = allocate_activations(batch.size, bytes);
    bindings_.activations = {activations_->data(), activations_->size()};
  }
  compiled.context = compiled.executable->bind(home_.arena, bindings_);
  return *compiled.context;
}

std::unique_ptr<Memory> CompiledGraphs::allocate_activations(int64_t batch, size_t bytes) const {
  const std::optional<size_t> free = device_.free_memory();
  if (!free || bytes <= *free) return device_.allocate(bytes);
  constexpr double kMegabyte = 1 << 20;
  // Activations grow with the batch; 10 % are reserved for what is not counted here.
  const auto fits = static_cast<int64_t>(0.9 * static_cast<double>(batch) * static_cast<double>(*free) /
                                         static_cast<double>(bytes));
  throw run_error(
      "{} has not enough memory: the activations of {} samples need {:.1f} MiB beside {:.1f} MiB for parameters, gradients and optimizer state, but {:.1f} MiB are free; {}",
      device_.name(), batch, static_cast<double>(bytes) / kMegabyte,
      static_cast<double>(home_.arena.bytes * (2 + home_.states.size())) / kMegabyte,
      static_cast<double>(*free) / kMegabyte,
      fits > 0 ? fmt::format("a batch of {} on this device would fit", fits) : "no batch would fit");
}

}  // namespace telar
