#include "telar/nn/layers/residual.h"

#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/nn/initializers.h"
#include "telar/nn/layers/convolution.h"
#include "telar/nn/layers/normalisation.h"

namespace telar {

namespace {

ValueId shortcut(ModelBuilder& model, ValueId x, int64_t channels, int64_t stride) {
  if (stride == 1 && model.shape(x)[1] == channels) return x;
  const ScopeGuard scope(model, "downsample");
  return batch_norm(model, "1", residual_convolution(model, "0", x, channels, 1, stride));
}

}  // namespace

ValueId residual_convolution(ModelBuilder& model, const std::string& name, ValueId x, int64_t channels,
                             int64_t kernel, int64_t stride) {
  return conv2d(model, name, x,
                {.channels = channels,
                 .kernel = kernel,
                 .stride = stride,
                 .padding = kernel / 2,
                 .bias = false,
                 .weight_initializer = kaiming_normal_fan_out(product_of({channels, kernel, kernel}))});
}

ValueId basic_block(ModelBuilder& model, const std::string& name, ValueId x, int64_t channels,
                    int64_t stride) {
  const ScopeGuard scope(model, name);
  ValueId y = residual_convolution(model, "conv1", x, channels, 3, stride);
  y = relu(model, batch_norm(model, "bn1", y));
  y = residual_convolution(model, "conv2", y, channels, 3, 1);
  y = batch_norm(model, "bn2", y);
  return relu(model, add(model, y, shortcut(model, x, channels, stride)));
}

ValueId bottleneck_block(ModelBuilder& model, const std::string& name, ValueId x, int64_t channels,
                         int64_t stride) {
  const ScopeGuard scope(model, name);
  ValueId y = residual_convolution(model, "conv1", x, channels, 1, 1);
  y = relu(model, batch_norm(model, "bn1", y));
  y = residual_convolution(model, "conv2", y, channels, 3, stride);
  y = relu(model, batch_norm(model, "bn2", y));
  y = residual_convolution(model, "conv3", y, 4 * channels, 1, 1);
  y = batch_norm(model, "bn3", y);
  return relu(model, add(model, y, shortcut(model, x, 4 * channels, stride)));
}

}  // namespace telar
