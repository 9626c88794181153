#include "limit.h"

#include <map>
#include <memory>
#include <unordered_map>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/device/cpu/parallel.h"
#include "telar/device/cpu/primitives.h"
#include "telar/device/device.h"

namespace telar::bench {

namespace {

using namespace telar::cpu;

/// With 0 seconds: 3 calls, after a first one that is not timed.
template <typename Body>
Times time_for(double seconds, const Body& body) {
  if (seconds > 0) return time_calls(seconds, body);
  body();
  return time_calls(
      3, [] {}, body);
}

/// A primitive with its own memory for every argument.
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
  void operator()() const {
    const OnTeam on_team;  // the step in turns with it would be disturbed by a second team
    primitive_.execute(stream_, arguments_);
  }
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

Alone convolution_alone(const Node& node, const std::string& kind, const Operands& o) {
  const ConvolutionShape shape = convolution_shape(node);
  const auto forward = convolution_forward(true, any(o.dtype, o.x), any(o.dtype, o.w), Desc(),
                                           any(o.dtype, o.y), shape, false);
  if (kind == "conv2d") {
    return {forward,
            dnnl::convolution_forward(forward),
            {{DNNL_ARG_SRC, forward.src_desc()},
             {DNNL_ARG_WEIGHTS, forward.weights_desc()},
             {DNNL_ARG_DST, forward.dst_desc()}}};
  }
  if (kind == "conv2d_backward_data") {
    const auto pd =
        convolution_backward_data(any(o.dtype, o.x), any(o.dtype, o.w), any(o.dtype, o.y), shape, forward);
    return {pd,
            dnnl::convolution_backward_data(pd),
            {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
             {DNNL_ARG_WEIGHTS, pd.weights_desc()},
             {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}}};
  }
  const auto pd = convolution_backward_weights(any(o.dtype, o.x), any(DType::f32, o.w), Desc(),
                                               any(o.dtype, o.y), shape, forward);
  return {pd,
          dnnl::convolution_backward_weights(pd),
          {{DNNL_ARG_SRC, pd.src_desc()},
           {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
           {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}}};
}

/// The sum of all results by oneDNN's reduction. It reads the memory as stored, in rows, so that all threads
/// take part. (With images or halves of images as rows it takes as long, with a single row a tenth longer.)
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

Alone linear_alone(const std::string& kind, const Operands& o) {
  const auto forward =
      inner_product_forward(true, any(o.dtype, o.x), any(o.dtype, o.w), Desc(), any(o.dtype, o.y), false);
  if (kind == "linear") {
    return {forward,
            dnnl::inner_product_forward(forward),
            {{DNNL_ARG_SRC, forward.src_desc()},
             {DNNL_ARG_WEIGHTS, forward.weights_desc()},
             {DNNL_ARG_DST, forward.dst_desc()}}};
  }
  if (kind == "linear_backward_data") {
    const auto pd =
        inner_product_backward_data(any(o.dtype, o.x), any(o.dtype, o.w), any(o.dtype, o.y), forward);
    return {pd,
            dnnl::inner_product_backward_data(pd),
            {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
             {DNNL_ARG_WEIGHTS, pd.weights_desc()},
             {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}}};
  }
  const auto pd = inner_product_backward_weights(any(o.dtype, o.x), any(DType::f32, o.w), Desc(),
                                                 any(o.dtype, o.y), forward);
  return {pd,
          dnnl::inner_product_backward_weights(pd),
          {{DNNL_ARG_SRC, pd.src_desc()},
           {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
           {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}}};
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

/// A copy, by all threads, in a memory range as large as the optimizer's: p, g and the states. (A smaller
/// copy could stay in a nearer cache than the optimizer's data can.)
class Copy {
 public:
  explicit Copy(int64_t floats)
      : half_(floats / 2), memory_(static_cast<size_t>(2 * half_) * sizeof(float)) {}
  void operator()() {
    float* to = memory_.as<float>().data();
    const float* from = to + half_;
    parallel_for(half_, 8192,
                 [&](int64_t begin, int64_t end) { std::copy(from + begin, from + end, to + begin); });
  }
  /// Number of floats read and written.
  double moved() const { return static_cast<double>(2 * half_); }

 private:
  int64_t half_;
  Buffer memory_;
};

/// The median time of a call in milliseconds, after a first call that is not timed.
double median_of(double seconds, const std::function<void()>& call) {
  call();
  return time_calls(
             2, seconds, [] {}, call)
      .median();
}

}  // namespace

StepAlone::StepAlone(const TrainingStep& step) {
  std::map<std::string, size_t> known;  // equal operations are measured once
  for (const Node& node : step.gradient.nodes()) {
    const std::string kind(node.op->name());
    const bool convolution = kind.starts_with("conv2d");
    if (!convolution && !kind.starts_with("linear")) continue;
    const Operands operands = operands_of(step.gradient, node, kind);
    const std::string key =
        kind + operands.x.str() + operands.w.str() + operands.y.str() + node.attributes.str();
    const auto [found, is_new] = known.try_emplace(key, operations_.size());
    if (is_new) {
      operations_.push_back(
          {convolution ? convolution_alone(node, kind, operands) : linear_alone(kind, operands), 0});
    }
    ++operations_[found->second].times;
  }
  int64_t floats = 0;
  for (const ParameterInfo& parameter : step.parameters) floats += parameter.shape.elements();
  const auto states = static_cast<int64_t>(state_slots(step.update).size());
  const auto copy = std::make_shared<Copy>(floats * (2 + states));
  // The optimizer reads p, g and the states, and writes p and the states.
  copies_ = static_cast<double>(floats * (3 + 2 * states)) / copy->moved();
  copy_ = [copy] { (*copy)(); };
}

Limit StepAlone::measure(double seconds) {
  const double each = seconds / static_cast<double>(operations_.size() + 1);
  Limit limit;
  for (const Operation& operation : operations_)
    limit.products_ms += operation.times * median_of(each, operation.call);
  limit.optimizer_ms = copies_ * median_of(each, copy_);
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
    if (kind == "conv2d") return time_for(seconds, convolution_alone(node, kind, o));
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
