#include "telar/device/cuda/kernels/convolution.h"

#include <fmt/format.h>

#include "telar/core/error.h"

namespace telar::cuda {

namespace {

/// Names of the tensors in a graph.
enum Uid : int64_t { kX = 1, kW, kY, kBias, kProduct, kSum };

/// How the attributes of a convolution in one direction are called.
struct AttributeNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};

AttributeNames names_of(Direction direction) {
  switch (direction) {
    case Direction::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case Direction::backward_data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Direction::backward_weights: break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

std::vector<int64_t> uids_of(const ConvolutionForm& form) {
  if (form.direction == Direction::backward_data) return {kY, kW, kX};
  if (form.direction == Direction::backward_weights) return {kX, kY, kW};
  if (form.bias) return {kX, kW, kBias, kY};
  return {kX, kW, kY};
}

/// Groups follow from the channels of x and w.
Descriptor describe_convolution(const Attributes& attributes) {
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, attributes.integers("padding"));
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, attributes.integers("padding"));
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, attributes.integers("stride"));
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, attributes.integers("dilation"));
  check(convolution.finalize(), "describing a convolution");
  return convolution;
}

void add_convolution(OperationGraph& graph, const ConvolutionForm& form, const Attributes& attributes,
                     const GraphTensor& y) {
  const AttributeNames names = names_of(form.direction);
  Descriptor operation(names.operation);
  operation.set(names.x, graph.describe({kX, form.x, form.layout}));
  operation.set(names.w, graph.describe({kW, form.w, form.layout}));
  operation.set(names.y, graph.describe(y));
  operation.set(names.convolution, describe_convolution(attributes));
  operation.set(names.alpha, 1.0F);
  operation.set(names.beta, 0.0F);
  graph.add(std::move(operation));
}

/// The convolution, and what comes behind it while its result is still in registers, f32.
OperationGraph graph_of(cudnnHandle_t handle, const ConvolutionForm& form, const Attributes& attributes) {
  OperationGraph graph(handle);
  const GraphTensor y{kY, form.y, form.layout};
  const TensorType sums{DType::f32, form.y.shape};
  const GraphTensor product = form.bias || form.relu ? GraphTensor{kProduct, sums, form.layout, false} : y;
  add_convolution(graph, form, attributes, product);
  const GraphTensor sum = form.bias && form.relu ? GraphTensor{kSum, sums, form.layout, false} : y;
  if (form.bias) {
    const GraphTensor bias{kBias, {DType::f32, {1, form.y.shape[1], 1, 1}}, form.layout};
    graph.add_pointwise(CUDNN_POINTWISE_ADD, product, &bias, sum);
  }
  if (form.relu) graph.add_pointwise(CUDNN_POINTWISE_RELU_FWD, form.bias ? sum : product, nullptr, y);
  return graph;
}

std::string name_of(Direction direction) {
  switch (direction) {
    case Direction::forward: return "convolution";
    case Direction::backward_data: return "convolution backward to data";
    case Direction::backward_weights: break;
  }
  return "convolution backward to weights";
}

/// All that its plans depend on.
std::string words_of(const ConvolutionForm& form, const Attributes& attributes, bool tf32) {
  return fmt::format("cuDNN {}{}{}: x {} w {} y {} {} {}{}", name_of(form.direction),
                     form.bias ? " with bias" : "", form.relu ? " and ReLU" : "", form.x.str(), form.w.str(),
                     form.y.str(), cuda::name_of(form.layout), attributes.str(), tf32 ? " TF32" : "");
}

}  // namespace

Convolution::Convolution(Gpu& gpu, const std::string& what, const ConvolutionForm& form,
                         const Attributes& attributes, bool tf32)
    : gpu_(gpu), handle_(gpu.convolutions()), form_(form), uids_(uids_of(form)), plans_(what) {
  const OperationGraph graph = graph_of(handle_, form, attributes);
  const EngineRules rules{form.y.dtype, tf32};
  const auto add = [&](Plan plan) {
    const std::string name = plan.name();
    const size_t workspace = plan.workspace();
    plans_.add(std::move(plan), name, workspace);
  };
  for (const std::string& known : gpu.choices().known(what)) {
    if (std::optional<Plan> plan = graph.plan(rules, known)) {
      add(std::move(*plan));
      return;
    }
  }
  for (Plan& plan : graph.plans(rules)) add(std::move(plan));
}

void Convolution::choose(const Pointers& p) {
  if (chosen_) return;
  plans_.choose(gpu_, [&](const Plan& plan) { return enqueue(plan, p) == CUDNN_STATUS_SUCCESS; });
  chosen_ = true;
}

void Convolution::run(const Pointers& p) const { check(enqueue(plans_.chosen(), p), "a convolution"); }

cudnnStatus_t Convolution::enqueue(const Plan& plan, const Pointers& p) const {
  std::vector<void*> memory;
  for (size_t i = 0; i < uids_.size(); ++i) memory.push_back(p[i]);
  return plan.enqueue(handle_, uids_, memory, p[uids_.size()]);
}

std::array<Layout, 2> convolution_layouts(const Lowering& lowering, DType dtype) {
  if (dtype == DType::f32 && !lowering.tf32()) return {Layout::plain, Layout::channels_last};
  return {Layout::channels_last, Layout::plain};
}

std::shared_ptr<Convolution> find_convolution(const Lowering& lowering, const Node& node,
                                              const std::vector<ConvolutionForm>& forms) {
  Gpu& gpu = lowering.gpu();
  for (const ConvolutionForm& form : forms) {
    const std::string what = words_of(form, node.attributes, lowering.tf32());
    auto& known = gpu.known_convolutions()[what];
    if (!known) known = std::make_shared<Convolution>(gpu, what, form, node.attributes, lowering.tf32());
    if (known->possible()) return known;
  }
  const ConvolutionForm& form = forms.back();
  throw run_error("cuDNN has no algorithm for {}{} of x {} and weights {} {} on {} ({})", node.op->name(),
                  node.scope.empty() ? "" : fmt::format(" (layer '{}')", node.scope), form.x.str(),
                  form.w.shape.str(), node.attributes.str(), lowering.gpu().name(), last_refusal());
}

}  // namespace telar::cuda
