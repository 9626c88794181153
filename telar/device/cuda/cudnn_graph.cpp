#include "telar/device/cuda/cudnn_graph.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <set>
#include <thread>
#include <utility>

namespace telar::cuda {

namespace {

constexpr size_t kMostPlans = 8;
/// At most this many of them need kernels that are compiled when the plan is made.
constexpr size_t kMostCompiled = 3;
/// Heuristics that propose engines, the better one first.
constexpr std::array kModes = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
/// More than cuDNN has of either kind.
constexpr size_t kMostNotes = 64;

std::vector<int64_t> strides_of(const Shape& shape, Layout layout) {
  if (layout == Layout::channels_last)
    return {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
  return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
}

bool permits(const EngineRules& rules, cudnnBackendNumericalNote_t note) {
  switch (note) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return rules.operands != DType::f32 || rules.tf32;
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS: return rules.operands != DType::f32;
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: return false;
    default: return true;
  }
}

/// Excludes engines that require reordered weights.
bool permits(cudnnBackendBehaviorNote_t note) {
  return note != CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER &&
         note != CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER;
}

/// What cuDNN says of an engine.
struct Engine {
  int64_t index;
  std::vector<cudnnBackendNumericalNote_t> numerical;
  std::vector<cudnnBackendBehaviorNote_t> behaviour;
};

Engine engine_of(const Descriptor& configuration) {
  const auto engine =
      configuration.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  return {engine.at(0).values<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1).at(0),
          engine.at(0).values<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, kMostNotes),
          engine.at(0).values<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, kMostNotes)};
}

bool permits(const EngineRules& rules, const Engine& engine) {
  return std::find(rules.unnoted.begin(), rules.unnoted.end(), engine.index) == rules.unnoted.end() &&
         std::all_of(engine.numerical.begin(), engine.numerical.end(),
                     [&](auto note) { return permits(rules, note); }) &&
         std::all_of(engine.behaviour.begin(), engine.behaviour.end(),
                     [](auto note) { return permits(note); });
}

bool is_compiled(const Engine& engine) {
  return std::find(engine.behaviour.begin(), engine.behaviour.end(),
                   CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != engine.behaviour.end();
}

/// The name of an engine with its settings: "engine 34, 2=5, 13=0".
std::string name_of(const Engine& engine, const Descriptor& configuration) {
  std::string name = fmt::format("engine {}", engine.index);
  for (const Descriptor& knob : configuration.descriptors(
           CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    const auto type = knob.values<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 1).at(0);
    name += fmt::format(", {}={}", static_cast<int>(type),
                        knob.values<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1).at(0));
  }
  return name;
}

/// The engine configurations that cuDNN proposes for a graph, the most promising first.
std::vector<Descriptor> configurations(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (heuristics.finalize() != CUDNN_STATUS_SUCCESS) return {};
  const int64_t count = heuristics.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  return heuristics.descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                static_cast<size_t>(count));
}

Descriptor pointwise_operation(cudnnPointwiseMode_t mode) {
  Descriptor pointwise(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  pointwise.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  pointwise.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  if (mode == CUDNN_POINTWISE_RELU_FWD || mode == CUDNN_POINTWISE_RELU_BWD) {
    // Without this attribute, NaN becomes 0 and goes unnoticed.
    pointwise.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN);
  }
  check(pointwise.finalize(), "describing an operation on each element");
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
  return operation;
}

/// Calls work(i) for every i, on as many threads as there are cores. Throws the first error.
template <typename Work>
void on_threads(size_t count, const Work& work) {
  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> errors(
      std::min<size_t>(count, std::max(1U, std::thread::hardware_concurrency())));
  {
    std::vector<std::jthread> threads;
    for (std::exception_ptr& error : errors) {
      threads.emplace_back([&] {
        try {
          for (size_t i = next++; i < count; i = next++) work(i);
        } catch (...) {
          error = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check(cudnnBackendCreateDescriptor(type, &descriptor_), "describing a graph");
}

Descriptor::~Descriptor() {
  if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  set_values(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
}

void Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<Descriptor>& values) {
  std::vector<cudnnBackendDescriptor_t> descriptors;
  for (const Descriptor& value : values) descriptors.push_back(value.descriptor_);
  set_values(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, descriptors.size(), descriptors.data());
}

void Descriptor::set_values(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t count,
                            const void* values) {
  check(cudnnBackendSetAttribute(descriptor_, name, type, static_cast<int64_t>(count), values),
        "describing a graph");
}

cudnnStatus_t Descriptor::finalize() { return cudnnBackendFinalize(descriptor_); }

int64_t Descriptor::count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
  int64_t count = 0;
  check(cudnnBackendGetAttribute(descriptor_, name, type, 0, &count, nullptr), "querying a graph");
  return count;
}

size_t Descriptor::get_values(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t most,
                              void* values) const {
  int64_t count = 0;  // all proposals
  check(cudnnBackendGetAttribute(descriptor_, name, type, static_cast<int64_t>(most), &count, values),
        "querying a graph");
  return std::min(static_cast<size_t>(count), most);
}

std::vector<Descriptor> Descriptor::descriptors(cudnnBackendAttributeName_t name,
                                                cudnnBackendDescriptorType_t type, size_t most) const {
  std::vector<Descriptor> found;
  std::vector<cudnnBackendDescriptor_t> into;
  for (size_t i = 0; i < most; ++i) into.push_back(found.emplace_back(type).descriptor_);
  found.erase(found.begin() + static_cast<std::ptrdiff_t>(
                                  get_values(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, into.data())),
              found.end());
  return found;
}

cudnnDataType_t data_type(DType dtype) {
  return dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

std::optional<Plan> Plan::make(cudnnHandle_t handle, std::string name, Descriptor configuration) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (plan.finalize() != CUDNN_STATUS_SUCCESS) return std::nullopt;
  const auto workspace = plan.values<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1);
  return Plan(std::move(name), std::move(configuration), std::move(plan),
              static_cast<size_t>(workspace.at(0)));
}

cudnnStatus_t Plan::enqueue(cudnnHandle_t handle, const std::vector<int64_t>& uids,
                            const std::vector<void*>& memory, void* workspace) const {
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, memory);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  check(pack.finalize(), "setting the memory of a graph");
  return cudnnBackendExecute(handle, plan_.get(), pack.get());
}

const Descriptor& OperationGraph::describe(const GraphTensor& tensor) {
  const auto known = tensors_.find(tensor.uid);
  if (known != tensors_.end()) return known->second;
  Descriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(tensor.type.dtype));
  descriptor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, tensor.type.shape.dims());
  descriptor.set(CUDNN_ATTR_TENSOR_STRIDES, strides_of(tensor.type.shape, tensor.layout));
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.uid);
  descriptor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kTensorAlignment);
  if (!tensor.stored) descriptor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  if (tensor.by_value) descriptor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  check(descriptor.finalize(), "describing a tensor");
  return tensors_.emplace(tensor.uid, std::move(descriptor)).first->second;
}

void OperationGraph::add(Descriptor operation) {
  possible_ = possible_ && operation.finalize() == CUDNN_STATUS_SUCCESS;
  operations_.push_back(std::move(operation));
}

void OperationGraph::add_pointwise(cudnnPointwiseMode_t mode, const GraphTensor& x, const GraphTensor* b,
                                   const GraphTensor& y) {
  Descriptor operation = pointwise_operation(mode);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, describe(x));
  if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, describe(*b));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, describe(y));
  add(std::move(operation));
}

void OperationGraph::add_relu_backward(const GraphTensor& dy, const GraphTensor& y, const GraphTensor& dx) {
  Descriptor operation = pointwise_operation(CUDNN_POINTWISE_RELU_BWD);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, describe(dy));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, describe(y));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, describe(dx));
  add(std::move(operation));
}

std::optional<Descriptor> OperationGraph::finalized() const {
  if (!possible_) return std::nullopt;
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle_);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  if (graph.finalize() != CUDNN_STATUS_SUCCESS) return std::nullopt;
  return graph;
}

std::vector<Proposal> OperationGraph::proposals(const EngineRules& rules) const {
  std::vector<Proposal> proposals;
  const std::optional<Descriptor> graph = finalized();
  if (!graph) return proposals;
  std::set<std::string> seen;
  for (const auto mode : kModes) {
    for (Descriptor& configuration : configurations(*graph, mode)) {
      const Engine engine = engine_of(configuration);
      if (!permits(rules, engine)) continue;
      const std::string name = name_of(engine, configuration);
      if (seen.insert(name).second)
        proposals.push_back({name, std::move(configuration), is_compiled(engine)});
    }
  }
  return proposals;
}

PlanSearch::PlanSearch(const OperationGraph& graph, const EngineRules& rules)
    : handle_(graph.handle()),
      most_workspace_(rules.most_workspace),
      proposals_(graph.proposals(rules)),
      most_(kMostPlans) {}

bool PlanSearch::only(const std::string& name) {
  const auto named = std::find_if(proposals_.begin(), proposals_.end(),
                                  [&](const Proposal& proposal) { return proposal.name == name; });
  if (named == proposals_.end()) return false;
  std::swap(proposals_.front(), *named);
  most_ = 1;
  return true;
}

std::vector<Proposal*> PlanSearch::next() {
  std::vector<Proposal*> chosen;
  size_t compiled = compiled_;
  for (; tried_ < proposals_.size() && plans_.size() + chosen.size() < most_; ++tried_) {
    Proposal& proposal = proposals_[tried_];
    if (proposal.compiled && compiled == kMostCompiled) continue;
    if (proposal.compiled) ++compiled;
    chosen.push_back(&proposal);
  }
  return chosen;
}

void PlanSearch::add(const Proposal& proposal, std::optional<Plan> plan) {
  if (!plan || plan->workspace() > most_workspace_) return;
  if (proposal.compiled) ++compiled_;
  plans_.push_back(std::move(*plan));
}

void PlanSearch::run(const Gpu& gpu, const std::vector<PlanSearch*>& searches) {
  struct Attempt {
    PlanSearch* search;
    Proposal* proposal;
    std::optional<Plan> plan;
  };
  while (true) {
    std::vector<Attempt> attempts;
    for (PlanSearch* search : searches)
      for (Proposal* proposal : search->next()) attempts.push_back({search, proposal, std::nullopt});
    if (attempts.empty()) return;
    on_threads(attempts.size(), [&](size_t i) {
      gpu.use();
      Attempt& attempt = attempts[i];
      attempt.plan = Plan::make(attempt.search->handle_, attempt.proposal->name,
                                std::move(attempt.proposal->configuration));
    });
    for (Attempt& attempt : attempts) attempt.search->add(*attempt.proposal, std::move(attempt.plan));
  }
}

std::string lost_without_compiler(const char* library) {
  if (::dlopen(library, RTLD_LAZY | RTLD_LOCAL) != nullptr) return {};  // never closed: cuDNN will use it
  return fmt::format(
      "{} cannot be loaded: cuDNN cannot use engines that need compilation, so batch norms in bf16 and convolutions with bias or ReLU may be slower",
      library);
}

std::string last_refusal() {
  std::array<char, 512> message{};
  cudnnGetLastErrorString(message.data(), message.size());
  return message.data();
}

}  // namespace telar::cuda
