#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

#include "cuda/fake_engines.h"
#include "cuda/fakes.h"

/// Descriptors of cuDNN's graph API, and plain loops that compute the graph.
namespace telar::test {

/// A descriptor with copies of the attributes that were set. Reading an attribute that was not set throws
/// std::out_of_range.
struct Described {
  struct Attribute {
    cudnnBackendAttributeType_t type;
    int64_t count;
    std::vector<std::byte> bytes;
    std::vector<Described> descriptors;  ///< copies made when they were set
  };

  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, Attribute> attributes = {};
  const FakeEngine* engine = nullptr;  ///< of a configuration, engine or plan

  bool has(cudnnBackendAttributeName_t name) const { return attributes.contains(name); }
  template <typename T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const Attribute& attribute = attributes.at(name);
    std::vector<T> values(static_cast<size_t>(attribute.count));
    if (attribute.bytes.size() != values.size() * sizeof(T)) throw std::out_of_range("another type");
    std::memcpy(values.data(), attribute.bytes.data(), attribute.bytes.size());
    return values;
  }
  template <typename T>
  T one(cudnnBackendAttributeName_t name) const {
    return all<T>(name).at(0);
  }
  const Described& described(cudnnBackendAttributeName_t name) const {
    return attributes.at(name).descriptors.at(0);
  }
};

using Extents = std::array<int64_t, 4>;

/// A tensor with its description and memory.
struct FakeTensor {
  explicit FakeTensor(const Described& from)
      : uid(from.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
        type(from.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
        alignment(from.one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)),
        stored(!from.has(CUDNN_ATTR_TENSOR_IS_VIRTUAL)),
        by_value(from.has(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
    const auto dims = from.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
    const auto steps = from.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
    for (size_t i = 0; i < 4; ++i) {
      extents[i] = dims.at(i);
      strides[i] = steps.at(i);
    }
  }
  bool bf16() const { return type == CUDNN_DATA_BFLOAT16; }
  bool channels_last() const { return extents[1] > 1 && strides[3] == extents[1]; }
  int64_t elements() const { return extents[0] * extents[1] * extents[2] * extents[3]; }
  size_t place(const Extents& at) const {
    int64_t sum = 0;
    for (size_t i = 0; i < 4; ++i)
      sum += (extents[i] == 1 ? 0 : at[i]) * strides[i];  // a single element is broadcast
    return static_cast<size_t>(sum);
  }
  float load(const Extents& at) const { return test::load(memory, bf16(), place(at)); }
  void store(const Extents& at, float value) const { test::store(memory, bf16(), place(at), value); }

  int64_t uid;
  cudnnDataType_t type;
  int64_t alignment;
  bool stored;
  bool by_value;  ///< its memory is on the host, and read when a plan is enqueued
  Extents extents{};
  Extents strides{};
  void* memory = nullptr;
};

/// The tensors of an operation; `result` is the index of the one that it writes.
struct Operands {
  std::vector<FakeTensor> tensors;
  size_t result = 0;
};

Operands operands_of(const Described& operation);
const std::vector<Described>& operations_of(const Described& graph);
FakeGraph nature_of(const Described& graph);

/// Whether an operation is described as cuDNN's documentation requires. Supported pointwise operations:
/// addition, ReLU and its gradient.
bool is_right(const Described& operation);

/// Enqueues a plan's graph on the stream, with the memory in the variant pack.
cudnnStatus_t execute(const Described& plan, const Described& pack, cudaStream_t stream);

}  // namespace telar::test
