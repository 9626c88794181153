#include "cuda/fake_graph.h"

#include <cmath>
#include <memory>

#include "cuda/fake_norm.h"

namespace telar::test {

namespace {

template <typename F>
void for_each_place(const Extents& extents, const F& f) {
  for (int64_t a = 0; a < extents[0]; ++a)
    for (int64_t b = 0; b < extents[1]; ++b)
      for (int64_t c = 0; c < extents[2]; ++c)
        for (int64_t d = 0; d < extents[3]; ++d) f(Extents{a, b, c, d});
}

/// The names of an operation's attributes: its tensors and its descriptor.
struct Names {
  cudnnBackendAttributeName_t x, w, y, by;
  cudnnBackendAttributeName_t alpha, beta;
};

Names names_of(cudnnBackendDescriptorType_t operation) {
  if (operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
    return {
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  if (operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
    return {
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
  return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

bool is_pointwise(const Described& operation) {
  return operation.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
}

/// Calls f for every product of a convolution, which belongs to one element of each of the three tensors.
template <typename F>
void for_each_product(const Described& by, const std::vector<FakeTensor>& tensors, const F& f) {
  const Extents& x = tensors[0].extents;
  const Extents& w = tensors[1].extents;
  const auto padding = by.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const auto stride = by.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  const auto dilation = by.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  const int64_t groups = x[1] / w[1];
  for_each_place(tensors[2].extents, [&](const Extents& at) {
    const int64_t first = at[1] / (w[0] / groups) * w[1];  // first channel of the group
    for_each_place({1, w[1], w[2], w[3]}, [&](const Extents& tap) {
      const int64_t row = at[2] * stride[0] - padding[0] + tap[2] * dilation[0];
      const int64_t column = at[3] * stride[1] - padding[1] + tap[3] * dilation[1];
      if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) return;
      f(std::array<Extents, 3>{Extents{at[0], first + tap[1], row, column},
                               Extents{at[1], tap[1], tap[2], tap[3]}, at});
    });
  });
}

void compute_convolution(const Described& operation, const Operands& operands) {
  const auto& tensors = operands.tensors;
  const FakeTensor& result = tensors[operands.result];
  const size_t left = operands.result == 0 ? 1 : 0;
  const size_t right = operands.result == 2 ? 1 : 2;
  std::vector<double> sums(static_cast<size_t>(result.elements()));
  const Described& by = operation.described(names_of(operation.type).by);
  for_each_product(by, tensors, [&](const std::array<Extents, 3>& at) {
    sums[result.place(at[operands.result])] +=
        static_cast<double>(tensors[left].load(at[left])) * tensors[right].load(at[right]);
  });
  for_each_place(result.extents,
                 [&](const Extents& at) { result.store(at, static_cast<float>(sums[result.place(at)])); });
}

cudnnPointwiseMode_t mode_of(const Described& pointwise) {
  return pointwise.described(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
      .one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
}

void compute_pointwise(const Described& operation, const Operands& operands) {
  if (mode_of(operation) == CUDNN_POINTWISE_RELU_BWD) {
    for_each_place(operands.tensors[operands.result].extents, [&](const Extents& at) {
      const float dy = operands.tensors[0].load(at);
      operands.tensors[operands.result].store(at, operands.tensors[1].load(at) > 0 ? dy : 0);
    });
    return;
  }
  const bool adds = mode_of(operation) == CUDNN_POINTWISE_ADD;
  const bool keeps_nan = operation.described(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                             .has(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION);
  for_each_place(operands.tensors[operands.result].extents, [&](const Extents& at) {
    float value = operands.tensors[0].load(at);
    if (adds) value += operands.tensors[1].load(at);
    if (!adds && (value < 0 || (std::isnan(value) && !keeps_nan))) value = 0;
    operands.tensors[operands.result].store(at, value);
  });
}

/// Finds the memory of a tensor in the variant pack; intermediate values have none yet.
bool find_memory(FakeTensor& tensor, const Described& pack) {
  if (!tensor.stored) return true;
  const auto uids = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (size_t i = 0; i < uids.size(); ++i)
    if (uids[i] == tensor.uid) tensor.memory = pointers.at(i);
  return tensor.memory != nullptr &&
         reinterpret_cast<uintptr_t>(tensor.memory) % static_cast<uintptr_t>(tensor.alignment) == 0;
}

/// An operation with the memory that it uses.
struct Work {
  Described operation;
  Operands operands;
  std::vector<std::shared_ptr<float>> values = {};  ///< copies of tensors passed by value
};

/// Reads the tensors that are passed by value.
void take_values(Work& work) {
  for (FakeTensor& tensor : work.operands.tensors) {
    if (!tensor.by_value) continue;
    work.values.push_back(std::make_shared<float>(*static_cast<const float*>(tensor.memory)));
    tensor.memory = work.values.back().get();
  }
}

void compute(std::vector<Work> works) {
  std::map<int64_t, std::vector<float>> between;
  for (Work& work : works) {
    for (FakeTensor& tensor : work.operands.tensors) {
      if (tensor.stored) continue;
      auto& memory = between[tensor.uid];
      memory.resize(static_cast<size_t>(tensor.elements()));
      tensor.memory = memory.data();
    }
    if (is_norm(work.operation)) {
      compute_norm(work.operation, work.operands);
    } else if (is_pointwise(work.operation)) {
      compute_pointwise(work.operation, work.operands);
    } else {
      compute_convolution(work.operation, work.operands);
    }
  }
}

}  // namespace

Operands operands_of(const Described& operation) {
  if (is_norm(operation)) return norm_operands(operation);
  if (is_pointwise(operation) && operation.has(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC)) {
    return {{FakeTensor(operation.described(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC)),
             FakeTensor(operation.described(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)),
             FakeTensor(operation.described(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC))},
            2};
  }
  if (is_pointwise(operation)) {
    Operands operands{{FakeTensor(operation.described(CUDNN_ATTR_OPERATION_POINTWISE_XDESC))}, 1};
    if (operation.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)) {
      operands.tensors.emplace_back(operation.described(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
      operands.result = 2;
    }
    operands.tensors.emplace_back(operation.described(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    return operands;
  }
  const Names names = names_of(operation.type);
  const size_t result = operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? 2
                        : operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? 0
                                                                                                         : 1;
  return {{FakeTensor(operation.described(names.x)), FakeTensor(operation.described(names.w)),
           FakeTensor(operation.described(names.y))},
          result};
}

bool is_right(const Described& operation) {
  if (is_norm(operation)) return is_right_norm(operation);
  if (is_pointwise(operation)) {
    if (operation.has(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC))
      return mode_of(operation) == CUDNN_POINTWISE_RELU_BWD;
    const size_t operands = operands_of(operation).tensors.size();
    return mode_of(operation) == (operands == 3 ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD);
  }
  const Names names = names_of(operation.type);
  const Operands operands = operands_of(operation);
  const FakeTensor& x = operands.tensors[0];
  const FakeTensor& w = operands.tensors[1];
  const FakeTensor& y = operands.tensors[2];
  const Described& by = operation.described(names.by);
  bool right = operation.one<float>(names.alpha) == 1 && operation.one<float>(names.beta) == 0 &&
               by.one<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT &&
               by.one<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION &&
               by.one<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2 && x.extents[0] == y.extents[0] &&
               w.extents[0] == y.extents[1] && x.extents[1] % w.extents[1] == 0;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t padding = by.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS).at(i) +
                            by.all<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS).at(i);
    const int64_t reach =
        by.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS).at(i) * (w.extents[2 + i] - 1) + 1;
    const int64_t stride = by.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES).at(i);
    right = right && y.extents[2 + i] == (x.extents[2 + i] + padding - reach) / stride + 1;
  }
  return right;
}

const std::vector<Described>& operations_of(const Described& graph) {
  return graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors;
}

FakeGraph nature_of(const Described& graph) {
  FakeGraph nature;
  const auto& operations = operations_of(graph);
  nature.fused = operations.size() > 1;
  const Operands operands = operands_of(operations.front());
  nature.norm = is_norm(operations.front());
  nature.bf16 = operands.tensors[0].bf16();
  for (const FakeTensor& tensor : operands.tensors)
    nature.channels_last = nature.channels_last || tensor.channels_last();
  const auto type = operands.tensors[0].type;
  nature.mixed = !nature.fused && (operands.tensors[1].type != type || operands.tensors[2].type != type);
  nature.groups = operands.tensors[0].extents[1] / operands.tensors[1].extents[1];
  return nature;
}

cudnnStatus_t execute(const Described& plan, const Described& pack, cudaStream_t stream) {
  void* workspace = pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (!plan.finalized || !pack.finalized || !is_aligned(workspace)) return CUDNN_STATUS_BAD_PARAM;
  note_executed(plan.engine->name);
  if (!plan.engine->runs) return CUDNN_STATUS_NOT_SUPPORTED;
  const Described& graph =
      plan.described(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).described(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  std::vector<Work> works;
  for (const Described& operation : operations_of(graph)) {
    works.push_back({operation, operands_of(operation)});
    for (FakeTensor& tensor : works.back().operands.tensors)
      if (!find_memory(tensor, pack)) return CUDNN_STATUS_BAD_PARAM;
    take_values(works.back());
  }
  const bool norm = is_norm(works.front().operation);
  count(norm ? &Fake::norms_computed : &Fake::convolutions);
  if (!norm) count(&Fake::fused, static_cast<int>(works.size()) - 1);
  on_stream(stream, [=, bytes = plan.engine->workspace] {
    if (bytes > 0) std::memset(workspace, 0xff, bytes);
    compute(works);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace telar::test
