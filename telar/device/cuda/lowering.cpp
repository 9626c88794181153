#include "telar/device/cuda/lowering.h"

#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/reorder.h"
#include "telar/device/lowering_body.h"

namespace telar {
template class GraphLowering<cuda::Target>;
}

namespace telar::cuda {

namespace {

const Kernels& kernels() {
  static const Kernels all = [] {
    Kernels registered;
    register_all(registered);
    return registered;
  }();
  return all;
}

}  // namespace

void Lowering::lower(const Node& node) {
  const Kernels::Kernel* kernel = kernels().find(node.op->name());
  if (kernel == nullptr) throw run_error("a GPU cannot compute {} yet", node.op->name());
  (*kernel)(*this, node);
}

void Lowering::compute_late(ValueId value, const StoredTensor& wanted) {
  if (const auto number = constant(value)) {
    const RegionId made = set_region(value, add_region(wanted, Place::activation));
    add({}, {made}, filling(gpu_, type(value), *number));
  } else if (const auto source = converted_parameter(value)) {
    const RegionId from = region(*source, wanted.layout);
    const RegionId made = set_region(value, add_region(wanted, Place::activation));
    add({from}, {made}, conversion(gpu_, type(*source), dtype(value)));
    last_step().reorders = true;
  }
}

std::optional<RegionId> Lowering::metric_of(ValueId result) {
  const auto metric = accumulated_into(result, ValueKind::metric);
  if (!metric) return std::nullopt;
  set_written_directly(result);
  return metric_region(*metric);
}

void Lowering::reorder(RegionId from, RegionId to) {
  const StoredTensor& made = GraphLowering::layout_of(to);
  add({from}, {to}, cuda::reorder(gpu_, made.type, made.layout));
  last_step().reorders = true;
}

}  // namespace telar::cuda
