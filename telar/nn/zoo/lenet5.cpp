#include "telar/nn/layers.h"
#include "telar/nn/zoo/entries.h"

namespace telar {

namespace {

/// LeCun et al., 1998, for images of 32×32; MNIST's images (28×28) were padded to that size.
Model make_lenet5(const ZooOptions& /*options*/, const Shape& sample, int64_t classes) {
  const int64_t padding = sample.rank() == 3 && sample[1] < 32 && sample[2] < 32 ? 2 : 0;
  return {"", sample, DType::f32, [=](ModelBuilder& model, ValueId x) {
            x = relu(model, conv2d(model, "conv1", x, {.channels = 6, .kernel = 5, .padding = padding}));
            x = max_pool(model, "pool1", x, 2, 2);
            x = relu(model, conv2d(model, "conv2", x, {.channels = 16, .kernel = 5}));
            x = max_pool(model, "pool2", x, 2, 2);
            x = relu(model, linear(model, "fc1", flatten(model, x), 120));
            x = relu(model, linear(model, "fc2", x, 84));
            return linear(model, "fc3", x, classes);
          }};
}

}  // namespace

ZooEntry lenet5_entry() { return {"lenet5", {}, make_lenet5}; }

}  // namespace telar
