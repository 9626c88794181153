#include "telar/nn/layers.h"
#include "telar/train/layer_types.h"

namespace telar {

namespace {

using Integers = std::vector<int64_t>;

Extent extent(const LayerJob& layer, const std::string& option) {
  const Integers& values = layer.options.integers(option);
  return {values.front(), values.back()};
}

Option count(const std::string& name, int64_t fallback, int64_t least = 1) {
  return {name, fallback, {.least = static_cast<double>(least), .most = 1 << 30}};
}

/// Every layer of a stack adds operations to the graph.
Option stacked_layers() { return {"layers", int64_t{1}, {.least = 1, .most = 1024}}; }

Option required_count(const std::string& name) {
  Option option = count(name, 1);
  option.required = true;
  return option;
}

/// 0: as many as the data have (job_model.cpp).
Option tokens_looked_up() {
  Option option = count("vocabulary", 0, 0);
  option.fallback_text = "that of the data";
  return option;
}

Option extent_option(const std::string& name, int64_t fallback, int64_t least = 1) {
  return {name, Integers{fallback}, {.least = static_cast<double>(least), .most = 1 << 20}, false, 2};
}

Option rate(const std::string& name) { return {name, 0.0, {.least = 0, .most = 1, .below_most = true}}; }

Option epsilon() { return {"epsilon", 1e-5, {.least = 0, .most = 1, .above_least = true}}; }

LayerType convolution() {
  Option kernel = extent_option("kernel", 3);
  kernel.required = true;
  return {"conv2d",
          1,
          1,
          {required_count("channels"),
           kernel,
           extent_option("stride", 1),
           extent_option("padding", 0, 0),
           extent_option("dilation", 1),
           count("groups", 1),
           {"bias", true}},
          [](ModelBuilder& model, const LayerJob& layer, const std::vector<ValueId>& x) {
            return conv2d(model, layer.name, x[0],
                          {.channels = layer.options.integer("channels"),
                           .kernel = extent(layer, "kernel"),
                           .stride = extent(layer, "stride"),
                           .padding = extent(layer, "padding"),
                           .dilation = extent(layer, "dilation"),
                           .groups = layer.options.integer("groups"),
                           .bias = layer.options.flag("bias")});
          }};
}

using Recurrent = RecurrentResult (*)(ModelBuilder&, const std::string&, ValueId, const RecurrentOptions&,
                                      ValueId);

LayerType recurrent(const std::string& name, Recurrent add) {
  return {name,
          1,
          1,
          {required_count("hidden"),
           stacked_layers(),
           rate("dropout"),
           {"bias", true},
           {"output", std::string("last"), {.choices = {"last", "sequence"}}}},
          [add](ModelBuilder& model, const LayerJob& layer, const std::vector<ValueId>& x) {
            const RecurrentResult result = add(model, layer.name, x[0],
                                               {.hidden = layer.options.integer("hidden"),
                                                .layers = layer.options.integer("layers"),
                                                .dropout = layer.options.real("dropout"),
                                                .bias = layer.options.flag("bias")},
                                               kNoValue);
            return layer.options.text("output") == "last" ? result.hidden : result.y;
          }};
}

using Block = ValueId (*)(ModelBuilder&, const std::string&, ValueId, int64_t channels, int64_t stride);

LayerType block(const std::string& name, Block add) {
  return {name,
          1,
          1,
          {required_count("channels"), count("stride", 1)},
          [add](ModelBuilder& model, const LayerJob& layer, const std::vector<ValueId>& x) {
            return add(model, layer.name, x[0], layer.options.integer("channels"),
                       layer.options.integer("stride"));
          }};
}

}  // namespace

std::vector<LayerType> weighted_layer_types() {
  return {
      convolution(),
      {"linear",
       1,
       1,
       {required_count("features"), {"bias", true}},
       [](ModelBuilder& model, const LayerJob& layer, const std::vector<ValueId>& x) {
         return linear(model, layer.name, x[0], layer.options.integer("features"),
                       layer.options.flag("bias"));
       }},
      {"batch_norm",
       1,
       1,
       {epsilon(), {"momentum", 0.1, {.least = 0, .most = 1}}},
       [](ModelBuilder& model, const LayerJob& layer, const std::vector<ValueId>& x) {
         return batch_norm(
             model, layer.name, x[0],
             {.epsilon = layer.options.real("epsilon"), .momentum = layer.options.real("momentum")});
       }},
      {"layer_norm",
       1,
       1,
       {epsilon()},
       [](ModelBuilder& model, const LayerJob& layer, const std::vector<ValueId>& x) {
         return layer_norm(model, layer.name, x[0], layer.options.real("epsilon"));
       }},
      {"embedding",
       1,
       1,
       {tokens_looked_up(), required_count("width")},
       [](ModelBuilder& model, const LayerJob& layer, const std::vector<ValueId>& x) {
         return embedding(model, layer.name, x[0], layer.options.integer("vocabulary"),
                          layer.options.integer("width"));
       }},
      recurrent("lstm", lstm),
      recurrent("gru", gru),
      block("basic_block", basic_block),
      block("bottleneck_block", bottleneck_block),
  };
}

}  // namespace telar
