#include "limit.h"

#include <map>
#include <unordered_map>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/device/cpu/parallel.h"
#include "telar/device/cpu/primitives.h"
#include "telar/device/device.h"

namespace telar::bench {

namespace {

using namespace telar::cpu;

/// With 0 seconds: of 3 calls after a first one.
template <typename Body>
Times time_for(double seconds, const Body& body) {
  if (seconds > 0) return time_calls(seconds, body);
  body();
  return time_calls(
      3, [] {}, body);
}

/// A primitive with memory of its own for every argument.
class Alone {
 public:
  template <typename PrimitiveDesc, typename Primitive>
  Alone(const PrimitiveDesc& pd, const Primitive& primitive,
        const std::vector<std::pair<int, Desc>>& arguments)
      : primitive_(primitive), stream_(engine()) {
    for (const auto& [argument, desc] : arguments) arguments_.emplace(argument, dnnl::memory(desc, engine()));
    arguments_.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(pd.scratchpad_desc(), engine()));
    for (auto& [argument, memory] : arguments_) {
      auto* bytes = static_cast<char*>(memory.get_data_handle());
      std::fill_n(bytes, memory.get_desc().get_size(), char{0});
    }
  }
  void operator()() const { primitive_.execute(stream_, arguments_); }
  void* memory(int argument) const { return arguments_.at(argument).get_data_handle(); }
  void share(int argument, void* memory) { arguments_.at(argument).set_data_handle(memory); }

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

struct Operands {
  DType dtype;
  Shape x, w, y;
};

ConvolutionShape convolution_shape(const Node& node) {
  const auto padding = node.attributes.integers("padding");
  return {node.attributes.integers("stride"), node.attributes.integers("dilation"), padding, padding};
}

Times time_convolution(const Node& node, const std::string& kind, const Operands& o, double seconds) {
  const ConvolutionShape shape = convolution_shape(node);
  const auto forward = convolution_forward(true, any(o.dtype, o.x), any(o.dtype, o.w), Desc(),
                                           any(o.dtype, o.y), shape, false);
  if (kind == "conv2d") {
    return time_for(seconds, Alone(forward, dnnl::convolution_forward(forward),
                                   {{DNNL_ARG_SRC, forward.src_desc()},
                                    {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                                    {DNNL_ARG_DST, forward.dst_desc()}}));
  }
  if (kind == "conv2d_backward_data") {
    const auto pd =
        convolution_backward_data(any(o.dtype, o.x), any(o.dtype, o.w), any(o.dtype, o.y), shape, forward);
    return time_for(seconds, Alone(pd, dnnl::convolution_backward_data(pd),
                                   {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                    {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                    {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}}));
  }
  const auto pd = convolution_backward_weights(any(o.dtype, o.x), any(DType::f32, o.w), Desc(),
                                               any(o.dtype, o.y), shape, forward);
  return time_for(seconds, Alone(pd, dnnl::convolution_backward_weights(pd),
                                 {{DNNL_ARG_SRC, pd.src_desc()},
                                  {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                  {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}}));
}

/// The sum of all results by oneDNN's reduction: over the memory as it lies, in rows whose sums all threads can make. (Rows that are images
/// or halves take as long, a single row a tenth longer.)
Times time_summed_convolution(const Node& node, const Operands& o, double seconds) {
  constexpr int64_t kRows = 32;
  const auto forward = convolution_forward(true, any(o.dtype, o.x), any(o.dtype, o.w), Desc(),
                                           any(o.dtype, o.y), convolution_shape(node), false);
  if (o.y.elements() % kRows != 0 ||
      forward.dst_desc().get_size() != static_cast<size_t>(o.y.elements()) * size_of(o.dtype))
    throw run_error("the results of this convolution, {}, cannot be summed in {} rows", o.y.str(), kRows);
  const auto rows = [&](int64_t length) {
    return Desc({kRows, length}, data_type(o.dtype), dnnl::memory::format_tag::ab);
  };
  const auto sum = reduction(dnnl::algorithm::reduction_sum, rows(o.y.elements() / kRows), rows(1));
  const Alone convolve(forward, dnnl::convolution_forward(forward),
                       {{DNNL_ARG_SRC, forward.src_desc()},
                        {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                        {DNNL_ARG_DST, forward.dst_desc()}});
  Alone add(sum, dnnl::reduction(sum), {{DNNL_ARG_SRC, sum.src_desc()}, {DNNL_ARG_DST, sum.dst_desc()}});
  add.share(DNNL_ARG_SRC, convolve.memory(DNNL_ARG_DST));
  return time_for(seconds, [&] {
    convolve();
    add();
  });
}

Times time_linear(const std::string& kind, const Operands& o, double seconds) {
  const auto forward =
      inner_product_forward(true, any(o.dtype, o.x), any(o.dtype, o.w), Desc(), any(o.dtype, o.y), false);
  if (kind == "linear") {
    return time_for(seconds, Alone(forward, dnnl::inner_product_forward(forward),
                                   {{DNNL_ARG_SRC, forward.src_desc()},
                                    {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                                    {DNNL_ARG_DST, forward.dst_desc()}}));
  }
  if (kind == "linear_backward_data") {
    const auto pd =
        inner_product_backward_data(any(o.dtype, o.x), any(o.dtype, o.w), any(o.dtype, o.y), forward);
    return time_for(seconds, Alone(pd, dnnl::inner_product_backward_data(pd),
                                   {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                    {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                    {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}}));
  }
  const auto pd = inner_product_backward_weights(any(o.dtype, o.x), any(DType::f32, o.w), Desc(),
                                                 any(o.dtype, o.y), forward);
  return time_for(seconds, Alone(pd, dnnl::inner_product_backward_weights(pd),
                                 {{DNNL_ARG_SRC, pd.src_desc()},
                                  {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                  {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}}));
}

Operands operands_of(const Graph& graph, const Node& node, const std::string& kind) {
  const auto shape = [&](ValueId id) { return graph.value(id).type.shape; };
  const DType dtype = graph.value(node.inputs[0]).type.dtype;
  if (kind.ends_with("_backward_data")) {
    return {dtype, shape(node.outputs[0]), shape(node.inputs[1]), shape(node.inputs[0])};
  }
  if (kind.ends_with("_backward_weights")) {
    return {dtype, shape(node.inputs[0]), shape(node.outputs[0]), shape(node.inputs[1])};
  }
  return {dtype, shape(node.inputs[0]), shape(node.inputs[1]), shape(node.outputs[0])};
}

/// The optimizer's bytes over the bandwidth of a copy whose memory is as large as the optimizer's: p, g and the states. (A
/// copy of less may stay in a nearer cache than the optimizer can.)
double time_optimizer(const TrainingStep& step, double seconds) {
  int64_t floats = 0;
  for (const ParameterInfo& parameter : step.parameters) floats += parameter.shape.elements();
  const auto states = static_cast<int64_t>(state_slots(step.update).size());
  const int64_t half = floats * (2 + states) / 2;
  Buffer memory(static_cast<size_t>(2 * half) * sizeof(float));
  float* to = memory.as<float>().data();
  const float* from = to + half;
  const double copy_ms = time_calls(seconds, [&] {
                           parallel_for(half, 8192, [&](int64_t begin, int64_t end) {
                             std::copy(from + begin, from + end, to + begin);
                           });
                         }).median();
  const auto copied = static_cast<double>(2 * half);
  const auto moved =
      static_cast<double>(floats * (3 + 2 * states));  // reads p, g and states; writes p and states
  return copy_ms * moved / copied;
}

}  // namespace

Limit measure_limit(const TrainingStep& step, double seconds) {
  Limit limit;
  std::map<std::string, double> known;  // equal operations are measured once
  for (const Node& node : step.gradient.nodes()) {
    const std::string kind(node.op->name());
    const bool convolution = kind.starts_with("conv2d");
    if (!convolution && !kind.starts_with("linear")) continue;
    const Operands operands = operands_of(step.gradient, node, kind);
    const std::string key =
        kind + operands.x.str() + operands.w.str() + operands.y.str() + node.attributes.str();
    if (!known.contains(key)) {
      known[key] = (convolution ? time_convolution(node, kind, operands, seconds / 20)
                                : time_linear(kind, operands, seconds / 20))
                       .median();
    }
    limit.products_ms += known[key];
  }
  limit.optimizer_ms = time_optimizer(step, seconds / 4);
  return limit;
}

Times time_summed(const Graph& graph, double seconds) {
  for (const Node& node : graph.nodes()) {
    if (node.op->name() == "conv2d")
      return time_summed_convolution(node, operands_of(graph, node, "conv2d"), seconds);
  }
  throw run_error("this graph has no convolution");
}

Times time_alone(const Graph& graph, double seconds) {
  for (const Node& node : graph.nodes()) {
    const std::string kind(node.op->name());
    const Operands o = operands_of(graph, node, kind);
    if (kind == "conv2d") return time_convolution(node, kind, o, seconds);
    if (kind != "matmul") continue;
    const auto row_major = [&](const Shape& shape) {
      return Desc(shape.dims(), data_type(o.dtype), dnnl::memory::format_tag::ab);
    };
    const auto pd = matrix_product(row_major(o.x), row_major(o.w), row_major(o.y));
    return time_for(seconds, Alone(pd, dnnl::matmul(pd),
                                   {{DNNL_ARG_SRC, pd.src_desc()},
                                    {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                    {DNNL_ARG_DST, pd.dst_desc()}}));
  }
  throw run_error("this graph has no convolution and no product");
}

}  // namespace telar::bench
