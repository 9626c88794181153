#include "telar/nn/layers.h"
#include "telar/nn/zoo/entries.h"

namespace telar {

namespace {

ValueId features(ModelBuilder& model, ValueId x) {
  const ScopeGuard scope(model, "features");
  x = relu(model, conv2d(model, "0", x, {.channels = 64, .kernel = 11, .stride = 4, .padding = 2}));
  x = max_pool(model, "2", x, 3, 2);
  x = relu(model, conv2d(model, "3", x, {.channels = 192, .kernel = 5, .padding = 2}));
  x = max_pool(model, "5", x, 3, 2);
  x = relu(model, conv2d(model, "6", x, {.channels = 384, .kernel = 3, .padding = 1}));
  x = relu(model, conv2d(model, "8", x, {.channels = 256, .kernel = 3, .padding = 1}));
  x = relu(model, conv2d(model, "10", x, {.channels = 256, .kernel = 3, .padding = 1}));
  return max_pool(model, "12", x, 3, 2);
}

/// torchvision averages the features to 6×6. If an output cell does not cover a whole number of pixels, as
/// with small images, the classifier takes the features unchanged.
ValueId average_to_6x6(ModelBuilder& model, ValueId x) {
  const Shape shape = model.shape(x);
  if (shape[2] % 6 != 0 || shape[3] % 6 != 0 || (shape[2] == 6 && shape[3] == 6)) return x;
  const Extent window(shape[2] / 6, shape[3] / 6);
  return average_pool(model, "avgpool", x, window, window);
}

ValueId classifier(ModelBuilder& model, ValueId x, double rate, int64_t classes) {
  const ScopeGuard scope(model, "classifier");
  x = dropout(model, "0", x, rate);
  x = relu(model, linear(model, "1", x, 4096));
  x = dropout(model, "3", x, rate);
  x = relu(model, linear(model, "4", x, 4096));
  return linear(model, "6", x, classes);
}

/// torchvision's form of Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014.
Model make_alexnet(const ZooOptions& options, const Shape& sample, int64_t classes) {
  const double rate = options.rate("dropout", 0.5);
  return {"", sample, DType::f32, [=](ModelBuilder& model, ValueId x) {
            x = average_to_6x6(model, features(model, x));
            return classifier(model, flatten(model, x), rate, classes);
          }};
}

}  // namespace

ZooEntry alexnet_entry() { return {"alexnet", {"dropout"}, make_alexnet}; }

}  // namespace telar
