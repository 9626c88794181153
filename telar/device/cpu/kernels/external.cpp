#include "telar/graph/ops/external.h"

#include <cfenv>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/kernels/common/f32_memory.h"

namespace telar::cpu {

namespace {

void lower_external(Lowering& lowering, const Node& node) {
  const ExternalMode mode = external_mode(node.attributes);
  const auto samples = static_cast<size_t>(lowering.shape(node.inputs[0])[0]);
  std::vector<RegionId> reads{lowering.plain_region(node.inputs[0])};
  std::vector<RegionId> writes;
  std::vector<size_t> sizes;  // of the parameters, then of the results
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    reads.push_back(f32_region(lowering, node.inputs[i]));
    sizes.push_back(static_cast<size_t>(lowering.shape(node.inputs[i]).elements()));
  }
  for (const ValueId output : node.outputs) {
    writes.push_back(lowering.define_plain(output));
    sizes.push_back(static_cast<size_t>(lowering.shape(output).elements()));
  }
  const auto function = external_function(node.attributes.text("function"));
  const size_t parameters = node.inputs.size() - 1;
  lowering.function(reads, writes, [=](const Pointers& p) {
    ExternalCall call{mode, {p.get<const int32_t>(0), samples}, {}, {}, {}};
    for (size_t i = 0; i < parameters; ++i) call.parameters.emplace_back(p.get<const float>(1 + i), sizes[i]);
    call.result = {p.get<float>(1 + parameters), sizes[parameters]};
    for (size_t i = parameters + 1; i < sizes.size(); ++i)
      call.gradients.emplace_back(p.get<float>(1 + i), sizes[i]);
    // What it computes within is its own matter (Team::take_exceptions); a NaN of its results is seen later.
    std::fexcept_t of_ours{};
    std::fegetexceptflag(&of_ours, FE_ALL_EXCEPT);
    (*function)(call);
    std::fesetexceptflag(&of_ours, FE_ALL_EXCEPT);
  });
}

}  // namespace

void register_external(Kernels& kernels) { kernels.add("external", lower_external); }

}  // namespace telar::cpu
