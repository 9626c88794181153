#include "telar/device/cuda/kernels/common/batch_norm_plans.h"

#include <fmt/format.h>

#include <map>

namespace telar::cuda {

namespace {

const std::string kLoops = "loops";

/// Identifiers of the tensors in a graph.
enum BatchNormTensor : int64_t {
  kNormX = 1,
  kNormScale,
  kNormShift,
  kNormMean,
  kNormInverse,
  kNormEpsilon,
  kNormY,
  kNormalised,  ///< y before a ReLU
  kDy,
  kThrough,  ///< the part of dy that passes through the ReLU
  kDx,
  kScaleGradient,
  kShiftGradient
};

/// The tensors of a form.
struct Tensors {
  explicit Tensors(const BatchNormForm& form)
      : image(form.x), channels{DType::f32, {1, form.x.shape[1], 1, 1}} {}

  GraphTensor of_images(BatchNormTensor uid) const { return {uid, image, Layout::channels_last}; }
  GraphTensor of_channels(BatchNormTensor uid) const { return {uid, channels, Layout::channels_last}; }
  /// An intermediate value between two operations.
  GraphTensor between(BatchNormTensor uid, DType dtype) const {
    return {uid, {dtype, image.shape}, Layout::channels_last, false};
  }

  TensorType image;
  TensorType channels;
};

/// Computes y from mean and inverse, which are outputs in training.
Descriptor forward_operation(OperationGraph& graph, const Tensors& tensors, cudnnBackendNormFwdPhase_t phase,
                             const GraphTensor& y) {
  Descriptor operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_BATCH_NORM);
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, phase);
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, graph.describe(tensors.of_images(kNormX)));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, graph.describe(tensors.of_channels(kNormMean)));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
                graph.describe(tensors.of_channels(kNormInverse)));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, graph.describe(tensors.of_channels(kNormScale)));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, graph.describe(tensors.of_channels(kNormShift)));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, graph.describe(y));
  return operation;
}

void add_forward(OperationGraph& graph, const Tensors& tensors, bool relu) {
  const GraphTensor y = tensors.of_images(kNormY);
  const GraphTensor normalised = relu ? tensors.between(kNormalised, DType::f32) : y;
  Descriptor operation = forward_operation(graph, tensors, CUDNN_NORM_FWD_TRAINING, normalised);
  const GraphTensor epsilon{kNormEpsilon, {DType::f32, {1, 1, 1, 1}}, Layout::plain, true, true};
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, graph.describe(epsilon));
  graph.add(std::move(operation));
  if (relu) graph.add_pointwise(CUDNN_POINTWISE_RELU_FWD, normalised, nullptr, y);
}

void add_backward(OperationGraph& graph, const Tensors& tensors, bool relu) {
  GraphTensor dy = tensors.of_images(kDy);
  if (relu) {
    // Recomputes y for its sign.
    const GraphTensor normalised = tensors.between(kNormalised, DType::f32);
    graph.add(forward_operation(graph, tensors, CUDNN_NORM_FWD_INFERENCE, normalised));
    const GraphTensor through = tensors.between(kThrough, tensors.image.dtype);
    graph.add_relu_backward(dy, normalised, through);
    dy = through;
  }
  Descriptor operation(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_BATCH_NORM);
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, graph.describe(tensors.of_images(kNormX)));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, graph.describe(dy));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, graph.describe(tensors.of_channels(kNormScale)));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, graph.describe(tensors.of_channels(kNormMean)));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC,
                graph.describe(tensors.of_channels(kNormInverse)));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
                graph.describe(tensors.of_channels(kScaleGradient)));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC,
                graph.describe(tensors.of_channels(kShiftGradient)));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, graph.describe(tensors.of_images(kDx)));
  graph.add(std::move(operation));
}

OperationGraph graph_of(cudnnHandle_t handle, const BatchNormForm& form) {
  OperationGraph graph(handle);
  if (form.backward) {
    add_backward(graph, Tensors(form), form.relu);
  } else {
    add_forward(graph, Tensors(form), form.relu);
  }
  return graph;
}

}  // namespace

BatchNormPlans::BatchNormPlans(Gpu& gpu, const std::string& what, const BatchNormForm& form)
    : gpu_(gpu), form_(form), ways_(what) {}

std::optional<PlanSearch> BatchNormPlans::search() const {
  PlanSearch search(graph_of(gpu_.convolutions(), form_), {form_.x.dtype});
  for (const std::string& known : gpu_.choices().known(ways_.what())) {
    if (known == kLoops) return std::nullopt;
    if (search.only(known)) break;
  }
  return search;
}

void BatchNormPlans::make(const Gpu& gpu, const std::vector<BatchNormPlans*>& all) {
  std::vector<std::optional<PlanSearch>> searches;
  std::vector<PlanSearch*> under_way;
  for (const BatchNormPlans* plans : all) searches.push_back(plans->search());
  for (auto& search : searches)
    if (search) under_way.push_back(&*search);
  PlanSearch::run(gpu, under_way);
  for (size_t i = 0; i < all.size(); ++i) {
    auto& ways = all[i]->ways_;
    if (searches[i]) {
      for (Plan& plan : searches[i]->take()) {
        const std::string name = plan.name();
        const size_t workspace = plan.workspace();
        ways.add(std::move(plan), name, workspace);
      }
    }
    ways.add(std::nullopt, kLoops, 0);
  }
}

void BatchNormPlans::choose(const BatchNormMemory& memory, const Loops& loops) {
  if (chosen_) return;
  ways_.choose(gpu_, [&](const Way& way) { return enqueue(way, memory, loops) == CUDNN_STATUS_SUCCESS; });
  chosen_ = true;
}

void BatchNormPlans::run(const BatchNormMemory& memory, const Loops& loops) const {
  check(enqueue(ways_.chosen(), memory, loops), "a batch norm");
}

cudnnStatus_t BatchNormPlans::enqueue(const Way& way, const BatchNormMemory& memory,
                                      const Loops& loops) const {
  if (!way) {
    loops.all();
    return CUDNN_STATUS_SUCCESS;
  }
  std::vector<int64_t> uids{kNormX, kNormScale, kNormMean, kNormInverse};
  std::vector<void*> pointers{memory.x, memory.scale, memory.mean, memory.inverse};
  const auto name = [&](BatchNormTensor uid, void* pointer) {
    uids.push_back(uid);
    pointers.push_back(pointer);
  };
  alignas(kTensorAlignment) float epsilon = form_.epsilon;
  if (form_.backward) {
    name(kDy, memory.dy);
    name(kDx, memory.dx);
    name(kScaleGradient, memory.scale_gradient);
    name(kShiftGradient, memory.shift_gradient);
  } else {
    name(kNormY, memory.y);
    name(kNormEpsilon, &epsilon);
  }
  if (!form_.backward || form_.relu) name(kNormShift, memory.shift);
  const cudnnStatus_t status = way->enqueue(gpu_.convolutions(), uids, pointers, memory.workspace);
  if (status == CUDNN_STATUS_SUCCESS && loops.after_graph) loops.after_graph();
  return status;
}

namespace {

/// Everything that the plans depend on; none if there are only the loops. cuDNN documents no accuracy for
/// f32, which must equal PyTorch's to 5 digits. Memory of channels begins at multiples of 16 bytes.
std::optional<std::string> words_of(const BatchNormForm& form) {
  constexpr int64_t kChannels = 8;
  const TensorType& x = form.x;
  if (x.dtype != DType::bf16 || x.shape.rank() != 4 || x.shape[1] % kChannels != 0) return std::nullopt;
  return fmt::format("cuDNN batch norm{}{}: x {} epsilon {}", form.backward ? " backward" : "",
                     form.relu ? " with ReLU" : "", x.str(), form.epsilon);
}

}  // namespace

void plan_batch_norms(Gpu& gpu, const std::vector<BatchNormForm>& forms) {
  std::map<std::string, std::shared_ptr<BatchNormPlans>> made;
  std::vector<BatchNormPlans*> all;
  for (const BatchNormForm& form : forms) {
    const std::optional<std::string> what = words_of(form);
    if (!what || gpu.known_batch_norms().contains(*what) || made.contains(*what)) continue;
    all.push_back((made[*what] = std::make_shared<BatchNormPlans>(gpu, *what, form)).get());
  }
  BatchNormPlans::make(gpu, all);
  gpu.known_batch_norms().merge(made);
}

std::shared_ptr<BatchNormPlans> find_batch_norm_plans(const Lowering& lowering, ValueId x,
                                                      const BatchNormForm& form) {
  const std::optional<std::string> what = words_of(form);
  if (!what || lowering.layout(x) != Layout::channels_last) return nullptr;
  plan_batch_norms(lowering.gpu(), {form});
  const auto known = lowering.gpu().known_batch_norms().at(*what);
  return known->possible() ? known : nullptr;
}

}  // namespace telar::cuda
