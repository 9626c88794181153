#include "telar/device/cuda/lowering.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/device/cuda/kernels/kernel_table.h"
#include "telar/device/cuda/kernels/reorder.h"
#include "telar/device/memory_plan.h"

namespace telar::cuda {

Lowering::Lowering(const Graph& graph, Gpu& gpu) : graph_(graph), gpu_(gpu) {
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.kind == ValueKind::parameter || value.kind == ValueKind::buffer)
      throw run_error("a GPU cannot hold parameters or gradients yet, and the graph has '{}'", value.name);
    if (value.kind != ValueKind::input) continue;
    lies_[static_cast<ValueId>(i)] =
        add_slot({value.type, Layout::plain, bytes_of(value.type), Place::input, value.name, 0});
  }
}

Layout Lowering::layout(ValueId value) const { return slots_[static_cast<size_t>(slot(value))].layout; }

SlotId Lowering::slot(ValueId value, Layout wanted) {
  if (layout(value) == wanted) return slot(value);
  const auto known = copies_.find(value);
  if (known != copies_.end()) return known->second;
  const TensorType& made = type(value);
  const SlotId copy = add_slot({made, wanted, bytes_of(made), Place::activation, {}, 0});
  add({slot(value)}, {copy}, reorder(gpu_, made, wanted));
  steps_.back().reorders = true;
  return copies_[value] = copy;
}

SlotId Lowering::define(ValueId result, Layout layout) {
  const TensorType& made = type(result);
  return lies_[result] = add_slot({made, layout, bytes_of(made), Place::activation, {}, 0});
}

SlotId Lowering::temporary(size_t bytes) {
  return add_slot({{DType::opaque, {}}, Layout::plain, bytes, Place::activation, {}, 0});
}

void Lowering::add(const std::vector<SlotId>& reads, const std::vector<SlotId>& writes, Enqueue enqueue,
                   Enqueue choose) {
  Step step{node_, std::move(enqueue), std::move(choose), reads, reads.size(), false};
  step.slots.insert(step.slots.end(), writes.begin(), writes.end());
  steps_.push_back(std::move(step));
}

void Lowering::run() {
  for (const Node& node : graph_.nodes()) {
    ++node_;
    const LowerFunction lower = find_kernel(node.op->name());
    if (lower == nullptr) throw run_error("a GPU cannot compute {} yet", node.op->name());
    lower(*this, node);
  }
}

SlotId Lowering::add_slot(Slot slot) {
  slots_.push_back(std::move(slot));
  return static_cast<SlotId>(slots_.size() - 1);
}

size_t plan_memory(std::vector<Slot>& slots, const std::vector<Step>& steps,
                   const std::vector<SlotId>& kept) {
  std::vector<Life> lives(slots.size());
  const auto touch = [&](SlotId slot, int step) {
    Life& life = lives[static_cast<size_t>(slot)];
    if (life.first < 0) life.first = step;
    life.last = std::max(life.last, step);
  };
  for (size_t s = 0; s < steps.size(); ++s)
    for (const SlotId slot : steps[s].slots) touch(slot, static_cast<int>(s));
  for (const SlotId slot : kept) touch(slot, static_cast<int>(steps.size()));
  // What lies elsewhere, or is touched by nothing, keeps 0 bytes.
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i].place == Place::activation && lives[i].first >= 0)
      lives[i].bytes = align_up_memory(slots[i].bytes);
  const size_t total = place_lives(lives);
  for (size_t i = 0; i < slots.size(); ++i) slots[i].offset = lives[i].offset;
  return total;
}

}  // namespace telar::cuda
