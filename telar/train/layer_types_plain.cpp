#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/transpose.h"
#include "telar/nn/layers.h"
#include "telar/train/layer_types.h"

namespace telar {

namespace {

using Integers = std::vector<int64_t>;
using Inputs = std::vector<ValueId>;

constexpr size_t kMostInputs = 1024;

template <typename Function>
LayerType unary(const std::string& name, Function function) {
  return {name, 1, 1, {}, [function](ModelBuilder& model, const LayerJob& layer, const Inputs& x) {
            const ScopeGuard scope(model, layer.name);
            return function(model, x[0]);
          }};
}

/// A type with two or more inputs, which are combined from left to right.
template <typename Function>
LayerType folded(const std::string& name, Function function) {
  return {name, 2, kMostInputs, {}, [function](ModelBuilder& model, const LayerJob& layer, const Inputs& x) {
            const ScopeGuard scope(model, layer.name);
            ValueId result = x[0];
            for (size_t i = 1; i < x.size(); ++i) result = function(model, result, x[i]);
            return result;
          }};
}

using Pool = ValueId (*)(ModelBuilder&, const std::string&, ValueId, Extent, Extent, Extent);

Extent extent(const Integers& values) { return {values.front(), values.back()}; }

LayerType pool(const std::string& name, Pool add) {
  const ValueRule size{.least = 1, .most = 1 << 20};
  return {name,
          1,
          1,
          {{"kernel", Integers{2}, size, false, 2},
           {"stride", Integers{}, size, false, 2, "the kernel"},
           {"padding", Integers{0}, {.least = 0, .most = 1 << 20}, false, 2}},
          [add](ModelBuilder& model, const LayerJob& layer, const Inputs& x) {
            const Integers& kernel = layer.options.integers("kernel");
            const Integers& stride = layer.options.integers("stride");
            return add(model, layer.name, x[0], extent(kernel), extent(stride.empty() ? kernel : stride),
                       extent(layer.options.integers("padding")));
          }};
}

Option axis_option() { return {"axis", int64_t{-1}, {.least = -16, .most = 15}}; }

Option required_list(const std::string& name) {
  return {name, Integers{}, {.least = -1, .most = 1 << 30}, true, 16};
}

std::vector<LayerType> shape_types() {
  return {
      unary("flatten", [](GraphBuilder& graph, ValueId x) { return flatten(graph, x); }),
      {"reshape",
       1,
       1,
       {required_list("shape")},
       [](ModelBuilder& model, const LayerJob& layer, const Inputs& x) {
         const ScopeGuard scope(model, layer.name);
         Integers dims = layer.options.integers("shape");
         dims.insert(dims.begin(), 0);  // the batch dimension is unchanged
         return reshape(model, x[0], dims);
       }},
      {"transpose",
       1,
       1,
       {required_list("axes")},
       [](ModelBuilder& model, const LayerJob& layer, const Inputs& x) {
         const ScopeGuard scope(model, layer.name);
         return transpose(model, x[0], layer.options.integers("axes"));
       }},
      {"mean",
       1,
       1,
       {required_list("axes")},
       [](ModelBuilder& model, const LayerJob& layer, const Inputs& x) {
         const ScopeGuard scope(model, layer.name);
         return reduce_mean(model, x[0], layer.options.integers("axes"));
       }},
  };
}

}  // namespace

std::vector<LayerType> plain_layer_types() {
  std::vector<LayerType> types;
  for (const std::string& name : activation_names())
    types.push_back(
        unary(name, [name](GraphBuilder& graph, ValueId x) { return activation(graph, name, x); }));
  const std::vector<LayerType> others = {
      {"softmax",
       1,
       1,
       {axis_option()},
       [](ModelBuilder& model, const LayerJob& layer, const Inputs& x) {
         const ScopeGuard scope(model, layer.name);
         return softmax(model, x[0], layer.options.integer("axis"));
       }},
      {"dropout",
       1,
       1,
       {{"rate", 0.5, {.least = 0, .most = 1, .below_most = true}}},
       [](ModelBuilder& model, const LayerJob& layer, const Inputs& x) {
         return dropout(model, layer.name, x[0], layer.options.real("rate"));
       }},
      pool("max_pool", max_pool),
      pool("average_pool", average_pool),
      {"global_average_pool",
       1,
       1,
       {},
       [](ModelBuilder& model, const LayerJob& layer, const Inputs& x) {
         return global_average_pool(model, layer.name, x[0]);
       }},
      {"masked_mean",
       2,
       2,
       {},
       [](ModelBuilder& model, const LayerJob& layer, const Inputs& x) {
         return masked_mean(model, layer.name, x[0], x[1]);
       }},
      folded("add", [](GraphBuilder& graph, ValueId a, ValueId b) { return add(graph, a, b); }),
      folded("mul", [](GraphBuilder& graph, ValueId a, ValueId b) { return mul(graph, a, b); }),
      {"concat",
       2,
       kMostInputs,
       {{"axis", int64_t{1}, {.least = -16, .most = 15}}},
       [](ModelBuilder& model, const LayerJob& layer, const Inputs& x) {
         const ScopeGuard scope(model, layer.name);
         return concat(model, x, layer.options.integer("axis"));
       }},
  };
  types.insert(types.end(), others.begin(), others.end());
  for (LayerType& type : shape_types()) types.push_back(std::move(type));
  return types;
}

}  // namespace telar
