#pragma once

#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/layouts.h"
#include "telar/graph/op.h"

// cuDNN's graph API (its "backend" API): tensors and operations are described, each by attributes, cuDNN
// proposes engines for the graph that they make, and a plan of one of them is executed. All throw Error (run)
// when cuDNN refuses what must work.
namespace telar::cuda {

constexpr cudnnBackendAttributeType_t attribute_type(int64_t) { return CUDNN_TYPE_INT64; }
constexpr cudnnBackendAttributeType_t attribute_type(bool) { return CUDNN_TYPE_BOOLEAN; }
constexpr cudnnBackendAttributeType_t attribute_type(float) { return CUDNN_TYPE_FLOAT; }
constexpr cudnnBackendAttributeType_t attribute_type(void*) { return CUDNN_TYPE_VOID_PTR; }
constexpr cudnnBackendAttributeType_t attribute_type(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
constexpr cudnnBackendAttributeType_t attribute_type(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
constexpr cudnnBackendAttributeType_t attribute_type(cudnnConvolutionMode_t) {
  return CUDNN_TYPE_CONVOLUTION_MODE;
}
constexpr cudnnBackendAttributeType_t attribute_type(cudnnPointwiseMode_t) {
  return CUDNN_TYPE_POINTWISE_MODE;
}
constexpr cudnnBackendAttributeType_t attribute_type(cudnnNanPropagation_t) {
  return CUDNN_TYPE_NAN_PROPOGATION;
}
constexpr cudnnBackendAttributeType_t attribute_type(cudnnBackendNormMode_t) { return CUDNN_TYPE_NORM_MODE; }
constexpr cudnnBackendAttributeType_t attribute_type(cudnnBackendNormFwdPhase_t) {
  return CUDNN_TYPE_NORM_FWD_PHASE;
}
constexpr cudnnBackendAttributeType_t attribute_type(cudnnBackendHeurMode_t) { return CUDNN_TYPE_HEUR_MODE; }
constexpr cudnnBackendAttributeType_t attribute_type(cudnnBackendKnobType_t) { return CUDNN_TYPE_KNOB_TYPE; }
constexpr cudnnBackendAttributeType_t attribute_type(cudnnBackendNumericalNote_t) {
  return CUDNN_TYPE_NUMERICAL_NOTE;
}
constexpr cudnnBackendAttributeType_t attribute_type(cudnnBackendBehaviorNote_t) {
  return CUDNN_TYPE_BEHAVIOR_NOTE;
}

/// One thing that is described to cuDNN. What a finalized one was given is cuDNN's own copy.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  cudnnBackendDescriptor_t get() const { return descriptor_; }

  template <typename T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    set_values(name, attribute_type(value), 1, &value);
  }
  template <typename T>
  void set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    set_values(name, attribute_type(T()), values.size(), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value);
  void set(cudnnBackendAttributeName_t name, const std::vector<Descriptor>& values);

  /// Ends the setting. Whether cuDNN can do what is described is the caller's question.
  [[nodiscard]] cudnnStatus_t finalize();

  /// How many values an attribute has.
  int64_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const;
  /// The first `most` of them.
  template <typename T>
  std::vector<T> values(cudnnBackendAttributeName_t name, size_t most) const {
    std::vector<T> values(most);
    values.resize(get_values(name, attribute_type(T()), most, values.data()));
    return values;
  }
  std::vector<Descriptor> descriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                      size_t most) const;

 private:
  void set_values(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t count,
                  const void* values);
  size_t get_values(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t most,
                    void* values) const;

  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

cudnnDataType_t data_type(DType dtype);

/// A tensor of an operation graph: f32 or bf16, of rank 4.
struct GraphTensor {
  int64_t uid = 0;  ///< names it in its graph, and its memory when a plan is executed
  TensorType type;
  Layout layout = Layout::plain;
  bool stored = true;     ///< false: it goes from one operation to the next and lies nowhere
  bool by_value = false;  ///< its one element is read from the host's memory when a plan is told to compute
};

/// What an engine must not do. None may round by Winograd's or Fourier's transforms, sum in less than f32, or
/// sum in another order when it runs again: promises of equality rest on that (docs/design.md).
struct EngineRules {
  DType operands = DType::f32;
  bool tf32 = false;  ///< whether f32 operands may be rounded to TF32
  size_t most_workspace = size_t{1} << 30;
};

/// One engine with its settings, ready to compute a graph.
class Plan {
 public:
  /// None when this engine cannot be had after all.
  static std::optional<Plan> make(cudnnHandle_t handle, std::string name, Descriptor configuration);

  /// The engine and its settings, as "engine 34, 2=5, 13=0".
  const std::string& name() const { return name_; }
  size_t workspace() const { return workspace_; }
  /// Tells the handle's stream to compute the graph with `memory` of the tensors `uids`, aligned to 16 bytes.
  cudnnStatus_t enqueue(cudnnHandle_t handle, const std::vector<int64_t>& uids,
                        const std::vector<void*>& memory, void* workspace) const;

 private:
  Plan(std::string name, Descriptor configuration, Descriptor plan, size_t workspace)
      : name_(std::move(name)),
        configuration_(std::move(configuration)),
        plan_(std::move(plan)),
        workspace_(workspace) {}

  std::string name_;
  Descriptor configuration_;
  Descriptor plan_;
  size_t workspace_;
};

/// Operations as they are put together, and the plans for them.
class OperationGraph {
 public:
  explicit OperationGraph(cudnnHandle_t handle) : handle_(handle) {}

  /// The description of a tensor, the same for each operation that names its uid.
  const Descriptor& describe(const GraphTensor& tensor);
  /// Adds an operation with all its attributes, not yet finalized.
  void add(Descriptor operation);
  /// y = mode(x), or, with b, mode(x, b); in f32. An axis of b may have one element for all of x's.
  void add_pointwise(cudnnPointwiseMode_t mode, const GraphTensor& x, const GraphTensor* b,
                     const GraphTensor& y);
  /// dx = dy where y > 0, else 0.
  void add_relu_backward(const GraphTensor& dy, const GraphTensor& y, const GraphTensor& dx);

  /// At most 8 plans, the likeliest first, of which at most 3 are of kernels that cuDNN compiles then; none
  /// when cuDNN has no engine for this graph that keeps the rules.
  std::vector<Plan> plans(const EngineRules& rules) const;
  /// The one of this name alone: to make a plan may take cuDNN as long as to compile a kernel. None when
  /// there is none.
  std::optional<Plan> plan(const EngineRules& rules, const std::string& name) const;

 private:
  /// None when cuDNN refuses it.
  std::optional<Descriptor> finalized() const;

  cudnnHandle_t handle_;
  std::map<int64_t, Descriptor> tensors_;
  std::vector<Descriptor> operations_;
  bool possible_ = true;  ///< no operation was refused
};

/// The compiler of CUDA's own, by which cuDNN makes kernels while it runs. cuDNN does not say that it is not
/// there: it has fewer engines.
inline constexpr const char* kCompiler = "libnvrtc.so.13";
/// What is lost where this library cannot be loaded, a sentence without a full stop; empty where it can.
std::string lost_without_compiler(const char* library = kCompiler);

/// What cuDNN says of the last thing that it refused.
std::string last_refusal();

}  // namespace telar::cuda
