#include "telar/nn/layers.h"
#include "telar/nn/zoo/entries.h"

namespace telar {

namespace {

/// 4.2 million multiply-adds for an image of 28×28. A pool after each convolution also makes the network less
/// sensitive to rounding: a ReLU whose input is near zero is seldom the maximum of its window, so replicas
/// agree with a single device for many steps.
Model make_convnet(const ZooOptions& options, const Shape& sample, int64_t classes) {
  const double rate = options.rate("dropout", 0.25);
  return {"", sample, DType::f32, [=](ModelBuilder& model, ValueId x) {
            x = relu(model, conv2d(model, "conv1", x, {.channels = 32, .kernel = 3, .padding = 1}));
            x = max_pool(model, "pool1", x, 2, 2);
            x = relu(model, conv2d(model, "conv2", x, {.channels = 64, .kernel = 3, .padding = 1}));
            x = max_pool(model, "pool2", x, 2, 2);
            x = relu(model, linear(model, "fc1", flatten(model, x), 128));
            x = dropout(model, "drop", x, rate);
            return linear(model, "fc2", x, classes);
          }};
}

}  // namespace

ZooEntry convnet_entry() { return {"convnet", {"dropout"}, make_convnet}; }

}  // namespace telar
