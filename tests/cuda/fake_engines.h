#pragma once

#include <cudnn.h>

#include <cstdint>
#include <string>
#include <vector>

namespace telar::test {

/// One of cuDNN's engines with its notes, and how the fake treats it.
struct FakeEngine {
  std::string name;
  std::vector<cudnnBackendNumericalNote_t> numerical = {};
  std::vector<cudnnBackendBehaviorNote_t> behaviour = {};
  size_t workspace = 0;
  bool finalizes = true;
  bool runs = true;
};

/// The engine's index in cuDNN, the same in every graph.
int64_t number_of(const FakeEngine& engine);

/// The properties of a graph on which cuDNN's choice of engines depends.
struct FakeGraph {
  bool fused = false;  ///< more than one operation
  bool mixed = false;  ///< an operation writes another type than it reads
  bool channels_last = false;
  bool norm = false;  ///< a batch norm
  bool bf16 = false;
  int64_t groups = 1;
};

/// Whether cuDNN has any engine for such a graph.
bool has_engines(const FakeGraph& graph);

/// The engines that cuDNN proposes, suitable or not. Only tensor cores compute fused graphs, as on a GPU.
std::vector<const FakeEngine*> engines_for(const FakeGraph& graph, cudnnBackendHeurMode_t mode);

}  // namespace telar::test
