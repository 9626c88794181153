#pragma once

#include <cudnn.h>

#include <cstdint>
#include <string>
#include <vector>

namespace telar::test {

/// One of cuDNN's engines, as its notes say, and what becomes of it.
struct FakeEngine {
  std::string name;
  std::vector<cudnnBackendNumericalNote_t> numerical = {};
  std::vector<cudnnBackendBehaviorNote_t> behaviour = {};
  size_t workspace = 0;
  bool finalizes = true;
  bool runs = true;
};

/// By which cuDNN knows it, whatever the graph.
int64_t number_of(const FakeEngine& engine);

/// What cuDNN's choice of engines depends on.
struct FakeGraph {
  bool fused = false;  ///< more than one operation
  bool mixed = false;  ///< one that writes another type than it reads
  bool channels_last = false;
  bool norm = false;  ///< a batch norm
  bool bf16 = false;
  int64_t groups = 1;
};

/// Whether cuDNN can compute such a graph at all.
bool has_engines(const FakeGraph& graph);

/// What cuDNN proposes, good and bad. What is fused is computed by tensor cores alone, as on a GPU.
std::vector<const FakeEngine*> engines_for(const FakeGraph& graph, cudnnBackendHeurMode_t mode);

}  // namespace telar::test
