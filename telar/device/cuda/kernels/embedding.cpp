#include "telar/device/cuda/loops/embedding.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"

namespace telar::cuda {

namespace {

void lower_embedding(Lowering& lowering, const Node& node) {
  const ValueId tokens = node.inputs[0];
  // If the table is converted to bf16, only the rows that are looked up are converted.
  const ValueId table = lowering.converted_parameter(node.inputs[1]).value_or(node.inputs[1]);
  const ValueId y = node.outputs[0];
  const Lookup lookup{lowering.shape(tokens).elements(), lowering.shape(table)[0], lowering.shape(table)[1]};
  const std::vector<RegionId> reads{lowering.plain_region(tokens), lowering.plain_region(table)};
  lowering.add(reads, {lowering.define_plain(y)},
               [=, from = lowering.dtype(table), to = lowering.dtype(y),
                stream = lowering.stream()](const Pointers& p) {
                 check(look_up(lookup, p.get<const int32_t>(0), p[1], from, p[2], to, stream),
                       "an embedding");
               });
}

void lower_embedding_backward(Lowering& lowering, const Node& node) {
  const ValueId tokens = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const ValueId dtable = node.outputs[0];
  const Lookup lookup{lowering.shape(tokens).elements(), lowering.shape(dtable)[0],
                      lowering.shape(dtable)[1]};
  size_t bytes = 0;
  check(look_up_backward_memory(lookup, bytes), "planning an embedding's gradient");
  const std::vector<RegionId> reads{lowering.plain_region(tokens), lowering.plain_region(dy)};
  lowering.add(reads, {lowering.define_plain(dtable), lowering.temporary(bytes)},
               [=, dtype = lowering.dtype(dy), stream = lowering.stream()](const Pointers& p) {
                 check(look_up_backward(lookup, p.get<const int32_t>(0), p[1], dtype, p.get<float>(2), p[3],
                                        bytes, stream),
                       "an embedding's gradient");
               });
}

}  // namespace

void register_embedding(Kernels& kernels) {
  kernels.add("embedding", lower_embedding);
  kernels.add("embedding_backward", lower_embedding_backward);
}

}  // namespace telar::cuda
