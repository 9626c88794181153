#include "telar/device/cuda/kernels/common/convolution.h"

#include <fmt/format.h>

#include "telar/core/error.h"
#include "telar/device/cuda/loops/activation.h"
#include "telar/device/cuda/loops/channel_bias.h"
#include "telar/device/cuda/loops/values.h"

namespace telar::cuda {

namespace {

/// Identifiers of the tensors in a graph.
enum ConvolutionTensor : int64_t {
  kConvolvedX = 1,
  kConvolvedW,
  kConvolvedY,
  kConvolvedBias,
  kConvolvedProduct,
  kConvolvedSum
};

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
  operation.set(names.x, graph.describe({kConvolvedX, form.x, form.layout}));
  operation.set(names.w, graph.describe({kConvolvedW, form.w, form.layout}));
  operation.set(names.y, graph.describe(y));
  operation.set(names.convolution, describe_convolution(attributes));
  operation.set(names.alpha, 1.0F);
  operation.set(names.beta, 0.0F);
  graph.add(std::move(operation));
}

/// The convolution with bias and ReLU, which are applied while the result is still in registers, in f32.
OperationGraph graph_of(cudnnHandle_t handle, const ConvolutionForm& form, const Attributes& attributes) {
  OperationGraph graph(handle);
  const GraphTensor y{kConvolvedY, form.y, form.layout};
  const TensorType sums{DType::f32, form.y.shape};
  const GraphTensor product =
      form.bias || form.relu ? GraphTensor{kConvolvedProduct, sums, form.layout, false} : y;
  add_convolution(graph, form, attributes, product);
  const GraphTensor sum = form.bias && form.relu ? GraphTensor{kConvolvedSum, sums, form.layout, false} : y;
  if (form.bias) {
    const GraphTensor bias{kConvolvedBias, {*form.bias, {1, form.y.shape[1], 1, 1}}, form.layout};
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

/// Everything that its plans depend on.
std::string words_of(const ConvolutionForm& form, const Attributes& attributes, bool tf32) {
  return fmt::format("cuDNN {}{}{}: x {} w {} y {} {} {}{}", name_of(form.direction),
                     form.bias ? " with bias" : "", form.relu ? " and ReLU" : "", form.x.str(), form.w.str(),
                     form.y.str(), cuda::name_of(form.layout), attributes.str(), tf32 ? " TF32" : "");
}

/// The forms that cuDNN may be asked for. The last one is the complete form.
std::vector<ConvolutionForm> forms_of(const ConvolutionForm& wanted) {
  std::vector<ConvolutionForm> forms;
  const auto another = [&]() -> ConvolutionForm& { return forms.emplace_back(wanted); };
  if (wanted.direction == Direction::backward_weights && wanted.w.dtype != wanted.y.dtype)
    another().w.dtype = wanted.y.dtype;
  if (wanted.bias || wanted.relu) {
    ConvolutionForm& alone = another();
    alone.bias.reset();
    alone.relu = false;
  }
  if (wanted.bias && wanted.y.dtype != *wanted.bias) another().bias = wanted.y.dtype;
  another();
  return forms;
}

/// The prefix of a way's name.
std::string words_of_difference(const ConvolutionForm& form, const ConvolutionForm& wanted) {
  if (form.bias != wanted.bias && form.bias) return "bias rounded, ";
  if (form.bias != wanted.bias || form.relu != wanted.relu) return "a loop behind ";
  return form.w.dtype != wanted.w.dtype ? "gradients rounded, " : "";
}

}  // namespace

Convolution::Convolution(Gpu& gpu, const std::string& what, const ConvolutionForm& wanted,
                         const Attributes& attributes, bool tf32)
    : gpu_(gpu), handle_(gpu.convolutions()), wanted_(wanted), ways_(what) {
  find_ways(attributes, tf32);
}

void Convolution::find_ways(const Attributes& attributes, bool tf32) {
  EngineRules rules{wanted_.y.dtype, tf32};
  // Its kernels are Winograd's (winograd_nonfused; cuDNN 9.19 on an H100).
  if (wanted_.direction == Direction::backward_weights) rules.unnoted = {17};
  const std::vector<ConvolutionForm> forms = forms_of(wanted_);
  for (const std::string& known : gpu_.choices().known(ways_.what())) {
    for (const ConvolutionForm& form : forms) {
      const std::string difference = words_of_difference(form, wanted_);
      if (!known.starts_with(difference)) continue;
      PlanSearch search(graph_of(handle_, form, attributes), rules);
      if (search.only(known.substr(difference.size())) && add(form, search)) return;
    }
  }
  for (const ConvolutionForm& form : forms) {
    PlanSearch search(graph_of(handle_, form, attributes), rules);
    add(form, search);
  }
}

bool Convolution::add(const ConvolutionForm& form, PlanSearch& search) {
  PlanSearch::run(gpu_, {&search});
  std::vector<Plan> plans = search.take();
  for (Plan& plan : plans) {
    const std::string name = words_of_difference(form, wanted_) + plan.name();
    const size_t workspace = scratch_of(form) + plan.workspace();
    ways_.add({form, std::move(plan)}, name, workspace);
  }
  return !plans.empty();
}

size_t Convolution::scratch_of(const ConvolutionForm& form) const {
  if (form.bias && form.bias != wanted_.bias)
    return align_up_memory(bytes_of({*form.bias, {form.y.shape[1]}}));
  return form.w.dtype != wanted_.w.dtype ? align_up_memory(bytes_of(form.w)) : 0;
}

void Convolution::choose(const ConvolutionMemory& memory) {
  if (chosen_) return;
  ways_.choose(gpu_, [&](const Way& way) { return enqueue(way, memory) == CUDNN_STATUS_SUCCESS; });
  chosen_ = true;
}

void Convolution::run(const ConvolutionMemory& memory) const {
  check(enqueue(ways_.chosen(), memory), "a convolution");
}

cudnnStatus_t Convolution::enqueue(const Way& way, const ConvolutionMemory& memory) const {
  const ConvolutionForm& form = way.form;
  ConvolutionMemory given = memory;
  given.workspace = static_cast<std::byte*>(memory.workspace) + scratch_of(form);
  if (form.w.dtype != wanted_.w.dtype) given.w = memory.workspace;
  if (form.bias && form.bias != wanted_.bias) {
    given.bias = memory.workspace;
    check(convert_values(memory.bias, *wanted_.bias, given.bias, *form.bias, form.y.shape[1], gpu_.stream()),
          "the bias of a convolution");
  }
  std::vector<int64_t> uids{kConvolvedX, kConvolvedW, kConvolvedY};
  std::vector<void*> pointers{given.x, given.w, given.y};
  if (form.bias) {
    uids.push_back(kConvolvedBias);
    pointers.push_back(given.bias);
  }
  const cudnnStatus_t status = way.plan.enqueue(handle_, uids, pointers, given.workspace);
  if (status == CUDNN_STATUS_SUCCESS) finish(form, memory);
  return status;
}

void Convolution::finish(const ConvolutionForm& form, const ConvolutionMemory& memory) const {
  const cudaStream_t stream = gpu_.stream();
  const Shape& y = wanted_.y.shape;
  if (form.w.dtype != wanted_.w.dtype) {
    check(convert_values(memory.workspace, form.w.dtype, memory.w, wanted_.w.dtype, form.w.shape.elements(),
                         stream),
          "the gradient of a convolution's weights");
  }
  if (wanted_.bias && !form.bias) {
    check(add_channel_bias(memory.y, wanted_.y.dtype, memory.bias, *wanted_.bias, wanted_.relu, y[0], y[1],
                           y[2] * y[3], wanted_.layout == Layout::channels_last, stream),
          "the bias of a convolution");
  } else if (wanted_.relu && !form.relu) {
    check(rectify(memory.y, memory.y, wanted_.y.dtype, y.elements(), stream), "the ReLU of a convolution");
  }
}

std::array<Layout, 2> convolution_layouts(const Lowering& lowering, DType dtype) {
  if (dtype == DType::f32 && !lowering.tf32()) return {Layout::plain, Layout::channels_last};
  return {Layout::channels_last, Layout::plain};
}

std::shared_ptr<Convolution> find_convolution(const Lowering& lowering, const Node& node,
                                              ConvolutionForm wanted) {
  Gpu& gpu = lowering.gpu();
  for (const Layout layout : convolution_layouts(lowering, wanted.y.dtype)) {
    wanted.layout = layout;
    const std::string what = words_of(wanted, node.attributes, lowering.tf32());
    auto& known = gpu.known_convolutions()[what];
    if (!known) known = std::make_shared<Convolution>(gpu, what, wanted, node.attributes, lowering.tf32());
    if (known->possible()) return known;
  }
  throw run_error("cuDNN has no algorithm for {}{} of x {} and weights {} {} on {} ({})", node.op->name(),
                  node.scope.empty() ? "" : fmt::format(" (layer '{}')", node.scope), wanted.x.str(),
                  wanted.w.shape.str(), node.attributes.str(), lowering.gpu().name(), last_refusal());
}

}  // namespace telar::cuda
