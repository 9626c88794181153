#include "telar/device/cuda/loops/whole_numbers.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"

namespace telar::cuda {

namespace {

template <typename From, typename To>
void lower_conversion(Lowering& lowering, const Node& node,
                      cudaError_t (*convert)(const From*, To*, int64_t, cudaStream_t)) {
  lowering.add({lowering.plain_region(node.inputs[0])}, {lowering.define_plain(node.outputs[0])},
               [convert, count = lowering.shape(node.inputs[0]).elements(),
                stream = lowering.stream()](const Pointers& p) {
                 check(convert(p.get<const From>(0), p.get<To>(1), count, stream),
                       "a conversion of whole numbers");
               });
}

}  // namespace

void register_whole_numbers(Kernels& kernels) {
  kernels.add("to_indices",
              [](Lowering& lowering, const Node& node) { lower_conversion(lowering, node, to_indices); });
  kernels.add("to_numbers",
              [](Lowering& lowering, const Node& node) { lower_conversion(lowering, node, to_numbers); });
}

}  // namespace telar::cuda
