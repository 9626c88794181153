#pragma once

#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/gpu.h"
#include "telar/device/cuda/layouts.h"
#include "telar/graph/op.h"

// cuDNN's graph API (its "backend" API). Tensors and operations are described by attributes and form a graph;
// cuDNN proposes engines for the graph, and a plan for one of the engines is executed. All functions throw
// Error (run) when cuDNN refuses a call that must succeed.
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

/// A cuDNN descriptor. A finalized descriptor holds copies of the attributes that were set.
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

  /// Ends the setting of attributes. The caller checks whether cuDNN supports what is described.
  [[nodiscard]] cudnnStatus_t finalize();

  /// The number of values of an attribute.
  int64_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const;
  /// The first `most` values.
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

/// The alignment in bytes of every tensor that a plan reads or writes, including one passed by value.
/// Parameters are stored at multiples of 64 bytes (telar/device/layout.h); engines require 16 at most.
inline constexpr int64_t kTensorAlignment = 16;

/// A tensor of an operation graph: f32 or bf16, of rank 4.
struct GraphTensor {
  int64_t uid = 0;  ///< identifies the tensor in its graph, and its memory when a plan runs
  TensorType type;
  Layout layout = Layout::plain;
  bool stored = true;     ///< false: an intermediate value, which is not stored in memory
  bool by_value = false;  ///< its one element is read from host memory when a plan is enqueued
};

/// What an engine must not do. No engine may round through Winograd or Fourier transforms, accumulate in less
/// than f32, or change the order of its sums between runs. Guarantees of equal results depend on this
/// (docs/design.md).
struct EngineRules {
  DType operands = DType::f32;
  bool tf32 = false;  ///< whether f32 operands may be rounded to TF32
  size_t most_workspace = size_t{1} << 30;
  /// Engines, by their global indices, that do such a thing although cuDNN does not note it.
  std::vector<int64_t> unnoted;
};

/// One engine with its settings, ready to execute a graph.
class Plan {
 public:
  /// None when cuDNN cannot provide this engine after all.
  static std::optional<Plan> make(cudnnHandle_t handle, std::string name, Descriptor configuration);

  /// The engine and its settings, as "engine 34, 2=5, 13=0".
  const std::string& name() const { return name_; }
  size_t workspace() const { return workspace_; }
  /// Enqueues the graph on the handle's stream. `memory` holds the pointers of the tensors `uids`, aligned to
  /// 16 bytes.
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

/// An engine with its settings that may execute a graph.
struct Proposal {
  std::string name;  ///< of the plan
  Descriptor configuration;
  bool compiled;  ///< whether cuDNN compiles its kernel when the plan is made, which takes up to a second
};

/// A graph of operations under construction.
class OperationGraph {
 public:
  explicit OperationGraph(cudnnHandle_t handle) : handle_(handle) {}

  /// The descriptor of a tensor, shared by all operations that name its uid.
  const Descriptor& describe(const GraphTensor& tensor);
  /// Adds an operation with all its attributes, not yet finalized.
  void add(Descriptor operation);
  /// y = mode(x), or mode(x, b) with b, computed in f32. An axis of b with one element is broadcast.
  void add_pointwise(cudnnPointwiseMode_t mode, const GraphTensor& x, const GraphTensor* b,
                     const GraphTensor& y);
  /// dx = dy where y > 0, else 0.
  void add_relu_backward(const GraphTensor& dy, const GraphTensor& y, const GraphTensor& dx);

  /// The engines that cuDNN proposes and the rules permit, the most promising first. None when cuDNN refuses
  /// the graph.
  std::vector<Proposal> proposals(const EngineRules& rules) const;
  cudnnHandle_t handle() const { return handle_; }

 private:
  /// None when cuDNN refuses the graph.
  std::optional<Descriptor> finalized() const;

  cudnnHandle_t handle_;
  std::map<int64_t, Descriptor> tensors_;
  std::vector<Descriptor> operations_;
  bool possible_ = true;  ///< no operation was refused
};

/// Finds the plans of one graph: at most 8, the most promising first; at most 3 of them are compiled when
/// they are made.
class PlanSearch {
 public:
  PlanSearch(const OperationGraph& graph, const EngineRules& rules);

  /// Limits the search to the plan of this name, or any other if that cannot be made. Returns false, and
  /// changes nothing, if it is not proposed.
  bool only(const std::string& name);
  /// Makes the plans of all searches at once, on several threads. cuDNN permits that with one handle
  /// (NVIDIA's cudnn-frontend, samples/cpp/misc/parallel_compilation.cpp).
  static void run(const Gpu& gpu, const std::vector<PlanSearch*>& searches);
  /// What run() has made.
  std::vector<Plan> take() { return std::move(plans_); }

 private:
  /// The proposals whose plans are to be made next; none when the search is over.
  std::vector<Proposal*> next();
  void add(const Proposal& proposal, std::optional<Plan> plan);

  cudnnHandle_t handle_;
  size_t most_workspace_;
  std::vector<Proposal> proposals_;
  size_t most_;       ///< plans
  size_t tried_ = 0;  ///< of the proposals
  std::vector<Plan> plans_;
  size_t compiled_ = 0;  ///< of the plans
};

/// NVIDIA's run-time compiler, with which cuDNN makes kernels. Without it cuDNN reports no error but has
/// fewer engines.
inline constexpr const char* kCompiler = "libnvrtc.so.13";
/// The consequences when this library cannot be loaded, without a full stop; empty when it can.
std::string lost_without_compiler(const char* library = kCompiler);

/// cuDNN's description of its last refusal.
std::string last_refusal();

}  // namespace telar::cuda
