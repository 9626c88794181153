#include <fmt/format.h>

#include <array>

#include "telar/nn/layers.h"
#include "telar/nn/zoo/entries.h"

namespace telar {

namespace {

using Block = ValueId (*)(ModelBuilder&, const std::string&, ValueId, int64_t channels, int64_t stride);

ValueId stem(ModelBuilder& model, ValueId x, int64_t channels, bool large_images) {
  const int64_t kernel = large_images ? 7 : 3;
  const int64_t stride = large_images ? 2 : 1;
  x = residual_convolution(model, "conv1", x, channels, kernel, stride);
  x = relu(model, batch_norm(model, "bn1", x));
  return large_images ? max_pool(model, "maxpool", x, 3, 2, 1) : x;
}

/// He et al., 2016, with torchvision's names; in a bottleneck the 3×3 convolution has the stride ("v1.5").
ZooEntry entry(const std::string& name, Block block, const std::array<int, 4>& blocks) {
  const auto make = [=](const ZooOptions& options, const Shape& sample, int64_t classes) {
    const bool large_images = options.choice("stem", "7x7", {"7x7", "3x3"}) == "7x7";
    const int64_t width = options.integer("width", 64, 1, 1 << 16);
    return Model{"", sample, DType::f32, [=](ModelBuilder& model, ValueId x) {
                   x = stem(model, x, width, large_images);
                   int64_t channels = width;
                   for (size_t stage = 0; stage < blocks.size(); ++stage) {
                     const ScopeGuard scope(model, fmt::format("layer{}", stage + 1));
                     for (int b = 0; b < blocks[stage]; ++b) {
                       x = block(model, fmt::format("{}", b), x, channels, b == 0 && stage > 0 ? 2 : 1);
                     }
                     channels *= 2;
                   }
                   x = global_average_pool(model, "avgpool", x);
                   return linear(model, "fc", flatten(model, x), classes);
                 }};
  };
  return {name, {"stem", "width"}, make};
}

}  // namespace

ZooEntry resnet18_entry() { return entry("resnet18", basic_block, {2, 2, 2, 2}); }
ZooEntry resnet34_entry() { return entry("resnet34", basic_block, {3, 4, 6, 3}); }
ZooEntry resnet50_entry() { return entry("resnet50", bottleneck_block, {3, 4, 6, 3}); }

}  // namespace telar
