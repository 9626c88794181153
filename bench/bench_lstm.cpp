// Times the primitives of oneDNN that a language model of LSTM layers consists of, alone: a layer's forward
// and backward pass, and the three products of its last linear layer. Their sum is what the library could
// give for a step.
//
//   bench_lstm --hidden 200 --words 2000 --steps 35 --samples 20 --layers 2

#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "telar/bench/timing.h"
#include "telar/device/cpu/primitives.h"
#include "telar/device/cpu/sequence_primitives.h"

namespace {

using namespace telar;
using namespace telar::bench;
using cpu::Desc;
using Memories = std::unordered_map<int, dnnl::memory>;

dnnl::memory filled(const Desc& desc) {
  dnnl::memory memory(desc, cpu::engine());
  std::fill_n(static_cast<float*>(memory.get_data_handle()), desc.get_size() / sizeof(float), 0.01F);
  return memory;
}

double median_ms(const dnnl::primitive& primitive, const Memories& memories, double seconds) {
  dnnl::stream stream(cpu::engine());
  return time_calls(seconds,
                    [&] {
                      primitive.execute(stream, memories);
                      stream.wait();
                    })
      .median();
}

double layer_ms(const cpu::RecurrentShape& shape, bool backward, double seconds) {
  const cpu::RecurrentPrimitive forward = cpu::recurrent_forward(true, shape);
  const cpu::RecurrentPrimitive used = backward ? cpu::recurrent_backward(shape) : forward;
  Memories memories{{DNNL_ARG_SRC_LAYER, filled(shape.x())},
                    {DNNL_ARG_WEIGHTS_LAYER, filled(used.pd.weights_layer_desc())},
                    {DNNL_ARG_WEIGHTS_ITER, filled(used.pd.weights_iter_desc())},
                    {DNNL_ARG_BIAS, filled(shape.bias())},
                    {DNNL_ARG_DST_LAYER, filled(shape.y())},
                    {DNNL_ARG_WORKSPACE, filled(forward.pd.workspace_desc())},
                    {DNNL_ARG_SCRATCHPAD, filled(used.pd.scratchpad_desc())}};
  for (const int state : {DNNL_ARG_SRC_ITER, DNNL_ARG_SRC_ITER_C, DNNL_ARG_DST_ITER, DNNL_ARG_DST_ITER_C})
    memories.emplace(state, filled(shape.state()));
  if (backward) {
    memories.emplace(DNNL_ARG_DIFF_SRC_LAYER, filled(shape.x()));
    memories.emplace(DNNL_ARG_DIFF_DST_LAYER, filled(shape.y()));
    memories.emplace(DNNL_ARG_DIFF_WEIGHTS_LAYER, filled(used.pd.diff_weights_layer_desc()));
    memories.emplace(DNNL_ARG_DIFF_WEIGHTS_ITER, filled(used.pd.diff_weights_iter_desc()));
    memories.emplace(DNNL_ARG_DIFF_BIAS, filled(shape.bias()));
    for (const int state :
         {DNNL_ARG_DIFF_SRC_ITER, DNNL_ARG_DIFF_SRC_ITER_C, DNNL_ARG_DIFF_DST_ITER, DNNL_ARG_DIFF_DST_ITER_C})
      memories.emplace(state, filled(shape.state()));
  }
  return median_ms(used.primitive, memories, seconds);
}

/// [m, k] · [k, n], with the right operand in the library's own layout.
double product_ms(int64_t m, int64_t k, int64_t n, double seconds) {
  const auto matrix = [](int64_t rows, int64_t columns, cpu::Tag tag) {
    return Desc({rows, columns}, dnnl::memory::data_type::f32, tag);
  };
  const auto pd = cpu::matrix_product(matrix(m, k, cpu::Tag::ab), matrix(k, n, cpu::Tag::any),
                                      matrix(m, n, cpu::Tag::ab));
  return median_ms(dnnl::matmul(pd),
                   {{DNNL_ARG_SRC, filled(pd.src_desc())},
                    {DNNL_ARG_WEIGHTS, filled(pd.weights_desc())},
                    {DNNL_ARG_DST, filled(pd.dst_desc())},
                    {DNNL_ARG_SCRATCHPAD, filled(pd.scratchpad_desc())}},
                   seconds);
}

}  // namespace

int main(int argc, char** argv) {
  int64_t hidden = 200;
  int64_t words = 2000;
  int64_t steps = 35;
  int64_t samples = 20;
  int64_t layers = 2;
  int threads = 2;
  double seconds = 1;
  CLI::App app("Times oneDNN's primitives of a language model of LSTM layers, alone; prints a JSON object");
  for (const auto& [name, number] : {std::pair{"--hidden", &hidden},
                                     {"--words", &words},
                                     {"--steps", &steps},
                                     {"--samples", &samples},
                                     {"--layers", &layers}})
    app.add_option(name, *number)->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--threads", threads)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seconds", seconds, "minimum time to repeat each, at least 10 times")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  omp_set_num_threads(threads);
  const cpu::RecurrentShape shape{true, steps, samples, hidden, hidden};
  const int64_t tokens = steps * samples;
  const double forward = layer_ms(shape, false, seconds);
  const double backward = layer_ms(shape, true, seconds);
  const double products = product_ms(tokens, hidden, words, seconds) +
                          product_ms(tokens, words, hidden, seconds) +
                          product_ms(words, tokens, hidden, seconds);
  std::cout << nlohmann::ordered_json{{"layer_forward_ms", forward},
                                      {"layer_backward_ms", backward},
                                      {"products_ms", products},
                                      {"sum_ms",
                                       static_cast<double>(layers) * (forward + backward) + products}}
                   .dump()
            << std::endl;
  return 0;
}
