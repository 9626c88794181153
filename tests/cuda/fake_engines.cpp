#include "cuda/fake_engines.h"

#include "cuda/fakes.h"

namespace telar::test {

namespace {

const std::vector<FakeEngine>& engines() {
  static const std::vector<FakeEngine> all = {
      {"Winograd", {CUDNN_NUMERICAL_NOTE_WINOGRAD}},
      {"Winograd 4x4", {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4}},
      {"Winograd 6x6", {CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6}},
      {"Winograd 13x13", {CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13}},
      {"Fourier", {CUDNN_NUMERICAL_NOTE_FFT}},
      {"atomic", {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
      {"sums in bf16", {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}},
      {"integers", {}, {CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER}},
      {"integers' bias", {}, {CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER}},
      {"greedy", {}, {}, size_t{2} << 30},
      {"not to be had", {}, {}, 0, false},
      {"not to be run", {}, {}, 0, true, false},
      {"rounds", {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}},
      {"tensor cores", {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}, 1000},
      {"plain", {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}},
  };
  return all;
}

/// More valid engines, all equally good.
std::vector<FakeEngine> make_further(const std::string& name,
                                     const std::vector<cudnnBackendBehaviorNote_t>& notes) {
  std::vector<FakeEngine> made;
  for (int i = 0; i < 20; ++i) made.push_back({name + " " + std::to_string(i), {}, notes});
  return made;
}
const std::vector<FakeEngine>& further_engines() {
  static const std::vector<FakeEngine> ready = make_further("further", {});
  static const std::vector<FakeEngine> compiled =
      make_further("compiled", {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION});
  return fake().compiles ? compiled : ready;
}

/// Engines for batch norms.
const std::vector<FakeEngine>& norm_engines() {
  static const std::vector<FakeEngine> all = {
      {"norm by chance", {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
      {"norm", {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}, 2000},
  };
  return all;
}

const FakeEngine& last_resort() {
  static const FakeEngine engine{"last resort", {}, {}, 3000};
  return engine;
}

}  // namespace

int64_t number_of(const FakeEngine& engine) {
  int64_t number = 0;
  for (const char letter : engine.name) number = (31 * number + letter) % 100'003;
  return number;
}

bool has_engines(const FakeGraph& graph) {
  if (graph.norm) return fake().norms && graph.bf16 && graph.channels_last;
  if (!fake().convolves || !(graph.channels_last ? fake().channels_last : fake().plain)) return false;
  if (graph.fused) return fake().fuses;
  return !graph.mixed || graph.groups == 1;
}

std::vector<const FakeEngine*> engines_for(const FakeGraph& graph, cudnnBackendHeurMode_t mode) {
  std::vector<const FakeEngine*> proposed;
  if (graph.norm) {
    for (const FakeEngine& engine : norm_engines()) proposed.push_back(&engine);
    return proposed;
  }
  if (mode == CUDNN_HEUR_MODE_FALLBACK && !graph.fused) proposed = {&engines().back(), &last_resort()};
  if (mode != CUDNN_HEUR_MODE_A) return proposed;
  for (const FakeEngine& engine : engines())
    if (!graph.fused || engine.name == "tensor cores") proposed.push_back(&engine);
  if (fake().further_engines)
    for (const FakeEngine& engine : further_engines()) proposed.push_back(&engine);
  return proposed;
}

}  // namespace telar::test
