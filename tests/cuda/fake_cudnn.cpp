// A fake of cuDNN's graph API. It overwrites workspaces.
#include <cudnn.h>

#include <cstring>
#include <stdexcept>
#include <vector>

#include "cuda/fake_engines.h"
#include "cuda/fake_graph.h"
#include "cuda/fakes.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using telar::test::Described;
using telar::test::fake;
using telar::test::FakeEngine;

Described& of(cudnnBackendDescriptor_t descriptor) { return *static_cast<Described*>(descriptor); }

/// Reads every attribute that a descriptor of this type requires.
cudnnStatus_t finalize(Described& descriptor) {
  switch (descriptor.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: telar::test::FakeTensor{descriptor}; break;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      descriptor.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
      break;
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      if (descriptor.one<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC) != CUDNN_DATA_FLOAT)
        return CUDNN_STATUS_NOT_SUPPORTED;
      break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      if (!telar::test::is_right(descriptor)) return CUDNN_STATUS_BAD_PARAM;
      break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      if (descriptor.one<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE) == nullptr)
        return CUDNN_STATUS_BAD_PARAM;
      break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      if (!telar::test::has_engines(
              telar::test::nature_of(descriptor.described(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH))))
        return CUDNN_STATUS_NOT_SUPPORTED;
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      descriptor.engine = descriptor.described(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).engine;
      telar::test::count(&telar::test::Fake::plans);
      if (!descriptor.engine->finalizes) return CUDNN_STATUS_NOT_SUPPORTED;
      break;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      if (descriptor.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).size() !=
          descriptor.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size())
        return CUDNN_STATUS_BAD_PARAM;
      break;
    default: return CUDNN_STATUS_BAD_PARAM;
  }
  return CUDNN_STATUS_SUCCESS;
}

size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_INT64: return sizeof(int64_t);
    case CUDNN_TYPE_DOUBLE: return sizeof(double);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR: return sizeof(void*);
    default: return sizeof(int);  // f32 and enumerations
  }
}

/// Returns the first of `values`, and their number.
template <typename T>
void give(const std::vector<T>& values, int64_t requested, int64_t* count, void* into) {
  *count = static_cast<int64_t>(values.size());
  for (size_t i = 0; i < values.size() && static_cast<int64_t>(i) < requested; ++i)
    static_cast<T*>(into)[i] = values[i];
}

/// Every engine has one setting: the size of its workspace.
void give_setting(const FakeEngine& engine, int64_t requested, int64_t* count, void* into) {
  *count = 1;
  if (requested < 1) return;
  Described& given = of(static_cast<cudnnBackendDescriptor_t*>(into)[0]);
  given.engine = &engine;
  given.finalized = true;
}

void give_engines(const std::vector<const FakeEngine*>& engines, const Described* graph, int64_t requested,
                  int64_t* count, void* into) {
  *count = static_cast<int64_t>(engines.size());
  for (size_t i = 0; i < engines.size() && static_cast<int64_t>(i) < requested; ++i) {
    Described& given = of(static_cast<cudnnBackendDescriptor_t*>(into)[i]);
    given.engine = engines[i];
    given.finalized = true;
    if (graph != nullptr)
      given.attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {*graph}};
  }
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return 91001; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t /*status*/) { return "cuDNN's words"; }
void cudnnGetLastErrorString(char* message, size_t size) {
  std::strncpy(message, "cuDNN's last words", size - 1);
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Described{type};
  telar::test::count(&telar::test::Fake::descriptors);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &of(descriptor);
  telar::test::count(&telar::test::Fake::descriptors, -1);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  try {
    const cudnnStatus_t status = finalize(of(descriptor));
    of(descriptor).finalized = status == CUDNN_STATUS_SUCCESS;
    return status;
  } catch (const std::out_of_range&) {  // an attribute was not set
    return CUDNN_STATUS_BAD_PARAM;
  }
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  if (of(descriptor).finalized) return CUDNN_STATUS_BAD_PARAM;
  Described::Attribute attribute{type, count, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; ++i) {
      attribute.descriptors.push_back(of(static_cast<const cudnnBackendDescriptor_t*>(values)[i]));
      if (!attribute.descriptors.back().finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    }
  } else {
    const auto* bytes = static_cast<const std::byte*>(values);
    attribute.bytes.assign(bytes, bytes + static_cast<size_t>(count) * size_of(type));
  }
  of(descriptor).attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t /*type*/,
                                       int64_t requested, int64_t* count, void* values) {
  const Described& from = of(descriptor);
  if (!from.finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    const Described& graph = from.described(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    const auto mode = from.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
    give_engines(telar::test::engines_for(telar::test::nature_of(graph), mode), &graph, requested, count,
                 values);
  } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    give_engines({from.engine}, nullptr, requested, count, values);
  } else if (name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES) {
    give_setting(*from.engine, requested, count, values);
  } else if (name == CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE) {
    give(std::vector{CUDNN_KNOB_TYPE_WORKSPACE}, requested, count, values);
  } else if (name == CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE) {
    give(std::vector<int64_t>{static_cast<int64_t>(from.engine->workspace)}, requested, count, values);
  } else if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) {
    give(std::vector<int64_t>{telar::test::number_of(*from.engine)}, requested, count, values);
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    give(from.engine->numerical, requested, count, values);
  } else if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE) {
    give(from.engine->behaviour, requested, count, values);
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    give(std::vector<int64_t>{static_cast<int64_t>(from.engine->workspace)}, requested, count, values);
  } else {
    return CUDNN_STATUS_BAD_PARAM;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return telar::test::execute(of(plan), of(pack), handle->stream);
}

}  // extern "C"
