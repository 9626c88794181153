#include "telar/nn/layers/convolution.h"

#include "telar/core/error.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/nn/initializers.h"

namespace telar {

namespace {

void check(const std::string& layer, const ConvolutionOptions& options, int64_t inputs) {
  const auto at_least = [&](const char* what, const Extent& extent, int64_t least) {
    if (extent.h >= least && extent.w >= least) return;
    throw user_error("layer '{}': conv2d {} is [{}, {}]; it must be at least {}", layer, what, extent.h,
                     extent.w, least);
  };
  at_least("channels", options.channels, 1);
  at_least("kernel", options.kernel, 1);
  at_least("stride", options.stride, 1);
  at_least("padding", options.padding, 0);
  at_least("dilation", options.dilation, 1);
  if (options.groups < 1 || inputs % options.groups != 0 || options.channels % options.groups != 0) {
    throw user_error("layer '{}': conv2d from {} to {} channels in {} groups; the groups must divide both",
                     layer, inputs, options.channels, options.groups);
  }
}

}  // namespace

ValueId conv2d(ModelBuilder& model, const std::string& name, ValueId x, const ConvolutionOptions& options) {
  const ScopeGuard scope(model, name);
  model.require_rank("conv2d", x, 4);
  const int64_t inputs = model.shape(x)[1];
  check(model.graph().scope(), options, inputs);

  const Shape weight{options.channels, inputs / options.groups, options.kernel.h, options.kernel.w};
  const Initializer initializer = uniform_fan_in(weight.elements_per_item());
  const ValueId w = model.parameter("weight", weight, options.weight_initializer.value_or(initializer));
  const ValueId b = options.bias ? model.parameter("bias", {options.channels}, initializer) : kNoValue;
  return conv2d(model, x, w, b,
                {options.stride.h, options.stride.w, options.padding.h, options.padding.w, options.dilation.h,
                 options.dilation.w, options.groups});
}

}  // namespace telar
